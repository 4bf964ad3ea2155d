"""SaslHandshake: the choice of a SASL mechanism."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, string

SASL_HANDSHAKE = Api(key=17, versions=range(2))


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeRequest:
    """The mechanism that the client wants.  After v0 the tokens follow bare, after v1 in SaslAuthenticate."""

    api: ClassVar[Api] = SASL_HANDSHAKE
    mechanism: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeResponse:
    """Whether it is enabled, and which are."""

    api: ClassVar[Api] = SASL_HANDSHAKE
    error_code: Annotated[int, int16]
    mechanisms: Annotated[tuple[str, ...], array(string)]
