"""DescribeUserScramCredentials: which SCRAM credentials users have."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int8, int16, int32, string

DESCRIBE_USER_SCRAM_CREDENTIALS = Api(key=50, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserName:
    """A user."""

    name: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsRequest:
    """Asks about users; null means all."""

    api: ClassVar[Api] = DESCRIBE_USER_SCRAM_CREDENTIALS
    users: Annotated[tuple[UserName, ...] | None, array(UserName)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialInfo:
    """A mechanism and its iterations."""

    mechanism: Annotated[int, int8]
    iterations: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResult:
    """The credentials of one user."""

    user: Annotated[str, string]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    credential_infos: Annotated[tuple[CredentialInfo, ...], array(CredentialInfo)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResponse:
    """The credentials, without their secrets."""

    api: ClassVar[Api] = DESCRIBE_USER_SCRAM_CREDENTIALS
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    results: Annotated[tuple[DescribeUserScramCredentialsResult, ...], array(DescribeUserScramCredentialsResult)]
