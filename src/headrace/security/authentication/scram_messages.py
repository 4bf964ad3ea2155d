"""The two messages of a SCRAM client, read strictly (RFC 5802, section 7)."""

import base64
import binascii
import re
from typing import Final

from headrace.declaring import dataclass
from headrace.security.authentication.exchange import RefusalError

# Twice the longest name in its longest form, and more than any nonce.  Messages are read on the loop, some hundred ns a byte.
SCRAM_BYTES_MAX: Final = 16 * 1024
_NAME: Final = r"(?:[^\x00,=]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"(?P<header>(?P<flag>[ny]|p=[A-Za-z0-9.-]+),(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>(?P<reserved>m=[^\x00,]*,)?n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    rf"(?P<extensions>(?:,[A-Za-z]+=[^\x00,]+)*))"
)
_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^\x00,]+)*?)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """Who wants in, with a nonce.  `header` and `bare` are kept as sent: both are signed later."""

    header: str
    bare: str
    name: str
    authorization_id: str
    nonce: str


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """The proof.  `without_proof` is kept as sent."""

    without_proof: str
    channel_binding: bytes
    nonce: str
    proof: bytes


def read_client_first(message: bytes) -> ClientFirst:
    found = _FIRST.fullmatch(_text(message))
    if found is None:
        raise RefusalError("the first message is malformed")
    if found["flag"].startswith("p="):
        raise RefusalError("the client asks for channel binding, which is not offered")
    if found["reserved"]:
        raise RefusalError("the client asks for a mandatory extension, and there is none")
    if ",tokenauth=true" in found["extensions"]:
        raise RefusalError("the client signs in by a delegation token, and these are disabled")
    authorization_id = found["authorization_id"] or ""
    return ClientFirst(found["header"], found["bare"], unescaped(found["name"]), unescaped(authorization_id), found["nonce"])


def read_client_final(message: bytes) -> ClientFinal:
    found = _FINAL.fullmatch(_text(message))
    if found is None:
        raise RefusalError("the final message is malformed")
    return ClientFinal(found["without_proof"], _decoded(found["binding"]), found["nonce"], _decoded(found["proof"]))


def unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _text(message: bytes) -> str:
    if len(message) > SCRAM_BYTES_MAX:
        raise RefusalError(f"a message of {len(message)} bytes")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise RefusalError("the message is not UTF-8") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise RefusalError("a part of the message is not base64") from None
