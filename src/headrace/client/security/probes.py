"""What somebody speaks who hung up on us: asked in the other way.

Whoever is spoken to in the wrong way mostly hangs up without a word: a broker that takes the first bytes of TLS for the length of
a request, and a TLS server whose alert is lost with the connection.  So the question is put once more, by TLS instead of plain
text or the other way round, and the first bytes of the answer tell.
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from typing import Final

from headrace.wire.codec import encode
from headrace.wire.framing import RequestHeader, request_frame
from headrace.wire.messages.api_versions import ApiVersionsRequest

PROBE_S_MAX: Final = 2.0
TLS_ALERT: Final = b"\x15\x03"
_TLS_ANSWERS: Final = (b"\x16\x03", TLS_ALERT)
_GREETING_ID: Final = 0x68656164
_ANSWER: Final = struct.Struct(">ii")
_ANSWER_BYTES_MAX: Final = 1 << 20
ANSWER_BYTES: Final = _ANSWER.size


def greeting() -> bytes:
    """A question that every broker answers, also before anybody has signed in."""
    request = ApiVersionsRequest(client_software_name="headrace", client_software_version="0")
    return b"".join(request_frame(RequestHeader(request.api.key, 0, _GREETING_ID, "headrace"), [encode(request, 0)]))


def is_of_broker(answer: bytes) -> bool:
    """Whether the first bytes of an answer to the greeting are a broker's."""
    if len(answer) < ANSWER_BYTES:
        return False
    length, greeting_id = _ANSWER.unpack(answer)
    return bool(greeting_id == _GREETING_ID and 0 < length < _ANSWER_BYTES_MAX)


def first_bytes(connection: socket.socket, count: int = ANSWER_BYTES) -> bytes:
    """What is answered, or less where somebody hangs up before.  Raises TimeoutError."""
    answer = b""
    with suppress(ConnectionError):
        while len(answer) < count and (piece := connection.recv(count - len(answer))):
            answer += piece
    return answer


def begins_tls(host: str, port: int, timeout: float) -> bool:
    """Whether TLS is spoken at an address, with whomever."""
    return _answer_to(_hello(), 2, host, port, timeout) in _TLS_ANSWERS


def is_plain_broker(host: str, port: int, timeout: float) -> bool:
    """Whether a broker answers at an address in plain text."""
    return is_of_broker(_answer_to(greeting(), ANSWER_BYTES, host, port, timeout))


def _hello() -> bytes:
    """What a client of TLS says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    said = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said).do_handshake()
    return said.read()


def _answer_to(question: bytes, count: int, host: str, port: int, timeout: float) -> bytes:
    with suppress(OSError), socket.create_connection((host, port), timeout=min(timeout, PROBE_S_MAX)) as connection:
        connection.sendall(question)
        return first_bytes(connection, count)
    return b""
