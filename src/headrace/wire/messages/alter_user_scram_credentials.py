"""AlterUserScramCredentials: sets or removes SCRAM credentials of users."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, binary, int8, int16, int32, string

ALTER_USER_SCRAM_CREDENTIALS = Api(key=51, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredentialDeletion:
    """A credential to remove."""

    name: Annotated[str, string]
    mechanism: Annotated[int, int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredentialUpsertion:
    """A credential to set.  The password comes salted and hashed."""

    name: Annotated[str, string]
    mechanism: Annotated[int, int8]
    iterations: Annotated[int, int32]
    salt: Annotated[bytes, binary]
    salted_password: Annotated[bytes, binary]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsRequest:
    """Credentials to remove and to set."""

    api: ClassVar[Api] = ALTER_USER_SCRAM_CREDENTIALS
    deletions: Annotated[tuple[ScramCredentialDeletion, ...], array(ScramCredentialDeletion)]
    upsertions: Annotated[tuple[ScramCredentialUpsertion, ...], array(ScramCredentialUpsertion)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsResult:
    """What became of one user."""

    user: Annotated[str, string]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsResponse:
    """For each user, whether it was done."""

    api: ClassVar[Api] = ALTER_USER_SCRAM_CREDENTIALS
    throttle_time_ms: Annotated[int, int32] = 0
    results: Annotated[tuple[AlterUserScramCredentialsResult, ...], array(AlterUserScramCredentialsResult)]
