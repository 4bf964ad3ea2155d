"""One connection to one broker, our own: TLS and signing in where librdkafka's properties ask for them, then calls one by one."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headrace.client.errors import BrokerError, BrokerTimeout, SecurityFailed
from headrace.client.logs import log
from headrace.client.security.probes import TLS_ALERT, begins_tls, is_plain_broker
from headrace.client.security.sasl import SIGNED_IN, is_foreign, mechanism_of, messages_of
from headrace.client.security.tls import FOREIGN, HungUp, NoAnswer, context_of, encrypted, protocol_of, speaks_no_tls, tls_failure
from headrace.model.access.scram_client import NotTheirAnswer
from headrace.model.errors import ErrorCode
from headrace.wire.apis import ApiKey
from headrace.wire.apis import messages_of as messages_of_api
from headrace.wire.codec import WireError, decode, encode
from headrace.wire.framing import RequestHeader, read_response_header, request_frame
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Reply = TypeVar("Reply")

REPLY_BYTES_MAX: Final = 104_857_600
WORDLESS_S: Final = 2.0
HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1
# Of a session's life, the part after which the connection is not used any more.
LIFE_USED: Final = 0.8
_LENGTH: Final = struct.Struct(">i")


MAY_WANT: Final = "it may want"  # begins what is guessed of somebody who hung up


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Unreachable(BrokerTimeout):
    """Nobody accepts connections at an address.  `reason` is the system's."""

    def __init__(self, endpoint: Endpoint, reason: str) -> None:
        super().__init__(f"no broker answers at {endpoint} ({reason})")
        self.reason = reason


class BrokerConnection:
    """What the broker speaks is asked once.  Raises BrokerTimeout without an answer, SecurityFailed where we are not let in."""

    def __init__(self, endpoint: Endpoint, config: Mapping[str, Any] | None = None, *, client_id: str, timeout_s: float) -> None:
        """`config` are librdkafka's properties; of these, all that TLS and signing in need."""
        self.endpoint = endpoint
        self._config = config or {}
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._correlation_id = 0
        self._good_until: float | None = None  # where we signed in for a while only
        self._was_answered = False
        context = context_of(self._config)
        try:
            self._socket = socket.create_connection((endpoint.host, endpoint.port), timeout=timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise Unreachable(endpoint, error.strerror or str(error)) from None
        try:
            self._introduce(context)
        except BaseException:
            self.close()
            raise

    def _introduce(self, context: ssl.SSLContext | None) -> None:
        if context is not None:
            self._encrypt(context)
        self._versions = self._negotiate()
        if protocol_of(self._config) in SIGNED_IN:
            self._sign_in()

    def _encrypt(self, context: ssl.SSLContext) -> None:
        try:
            self._socket = encrypted(self._socket, context, self.endpoint.host, str(self.endpoint))
        except HungUp:
            if is_plain_broker(self.endpoint.host, self.endpoint.port, self._timeout_s):
                raise SecurityFailed(speaks_no_tls(str(self.endpoint))) from None
            raise

    def _negotiate(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="headrace", client_software_version="0")
        # Version 0 is understood by every broker, and its answer is all that we need.
        reply = self._exchange(request, ApiVersionsResponse, 0)
        return {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}

    def _sign_in(self) -> None:
        mechanism = mechanism_of(self._config)
        messages = messages_of(self._config)
        handshake = self._exchange(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, HANDSHAKE_VERSION)
        if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            known = ", ".join(handshake.mechanisms)
            raise SecurityFailed(f"{self.endpoint} does not take sasl_mechanism {mechanism}; it takes {known}")
        if handshake.error_code:
            raise SecurityFailed(
                f"{self.endpoint} does not use SASL; use security_protocol SSL or PLAINTEXT, or another listener"
            )
        try:
            message = next(messages)
            while True:
                reply = self._authenticate(message, mechanism)
                message = messages.send(bytes(reply.auth_bytes))
        except StopIteration:
            pass
        except NotTheirAnswer as error:
            raise SecurityFailed(f"{self.endpoint} is not the broker that it should be: {error}") from None
        if reply.session_lifetime_ms:
            self._good_until = time.monotonic() + reply.session_lifetime_ms / 1000 * LIFE_USED

    def require_that_nobody_has_to_sign_in(self) -> None:
        """Raises SecurityFailed where we have not signed in and everybody has to.

        Who has to would otherwise see nothing but closed connections.  Only listeners where people sign in answer a handshake
        without an error, or with the mechanisms that they take.
        """
        if protocol_of(self._config) in SIGNED_IN or ApiKey.SASL_HANDSHAKE not in self._versions:
            return
        try:
            handshake = self._exchange(SaslHandshakeRequest(mechanism=""), SaslHandshakeResponse, HANDSHAKE_VERSION)
        except BrokerTimeout:
            return
        if handshake.error_code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM):
            known = ", ".join(handshake.mechanisms)
            raise SecurityFailed(f"{self.endpoint} wants its clients to sign in (username, password_file), by {known}")

    def _authenticate(self, message: bytes, mechanism: str) -> SaslAuthenticateResponse:
        reply = self._exchange(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, AUTHENTICATE_VERSION)
        if reply.error_code:
            user = self._config.get("sasl.username")
            who = f"user {user}" if user and mechanism != "OAUTHBEARER" else "the bearer of this token"
            hint = "; check user name and password" if user and mechanism != "OAUTHBEARER" else ""
            raise SecurityFailed(f"{self.endpoint} rejected {who} ({mechanism}){hint} ({reply.error_message})")
        return reply

    def version_of(self, request: Any) -> int:
        """The newest version of this request's API that both sides know."""
        api = request.api
        name = ApiKey(api.key).name
        if api.key not in self._versions:
            raise unsupported(f"the broker at {self.endpoint} does not know {name}")
        lowest, highest = self._versions[api.key]
        version = min(highest, api.versions[-1])
        if version < max(lowest, api.versions[0]):
            raise unsupported(f"the broker at {self.endpoint} speaks versions {lowest} to {highest} of {name}, which we do not")
        return int(version)

    def call(self, request: Any) -> Any:
        """Send a request and wait for its reply."""
        reply = self._exchange(request, messages_of_api(ApiKey(request.api.key)).response, self.version_of(request))
        self._was_answered = True
        return reply

    def _exchange(self, request: Any, reply: type[Reply], version: int) -> Reply:
        self._correlation_id += 1
        header = RequestHeader(request.api.key, version, self._correlation_id, self._client_id)
        try:
            self._socket.sendall(b"".join(request_frame(header, [encode(request, version)])))
            self._wait_for_first_byte(ApiKey(request.api.key).name)
            frame = self._receive(self._announced())
            correlation_id, position = read_response_header(frame, request.api.key, version)
            if correlation_id != self._correlation_id:
                raise WireError(f"the reply is to request {correlation_id}, not {self._correlation_id}")
            return decode(reply, frame, version, position)
        except ssl.SSLError as error:
            self.close()
            raise tls_failure(error, str(self.endpoint)) from None
        except (OSError, WireError) as error:
            # Half a reply may still be on its way: this connection is of no more use.
            self.close()
            if isinstance(error, SecurityFailed):
                raise
            asked = ApiKey(request.api.key).name
            has_hung_up = isinstance(error, ConnectionError)
            if has_hung_up and request.api.key == ApiKey.API_VERSIONS and "ssl" not in protocol_of(self._config):
                self._require_plain_text()
            hint = self._hint(request) if has_hung_up else ""
            kind = NoAnswer if isinstance(error, TimeoutError) else BrokerTimeout
            raise kind(f"the broker at {self.endpoint} did not answer {asked}: {error}{hint}") from None

    def _require_plain_text(self) -> None:
        """Raises SecurityFailed where it is TLS that the other side speaks."""
        if begins_tls(self.endpoint.host, self.endpoint.port, self._timeout_s):
            raise SecurityFailed(speaks_tls(str(self.endpoint))) from None

    def _announced(self) -> int:
        """How long the reply is that comes."""
        length = self._receive(_LENGTH.size)
        if length.startswith(TLS_ALERT):
            raise SecurityFailed(speaks_tls(str(self.endpoint)))
        return int(_LENGTH.unpack(length)[0])

    def _hint(self, request: Any) -> str:
        """Why somebody may have hung up who was never heard before."""
        is_greeting, protocol = request.api.key == ApiKey.API_VERSIONS, protocol_of(self._config)
        if is_greeting and protocol in ("ssl", "sasl_ssl"):
            # TLS 1.3 has our side done before the other side has looked at our certificate, and some hang up without a word.
            return f"; {MAY_WANT} a certificate of its clients, or another one (certificate_file)"
        if is_greeting:
            return f"; {MAY_WANT} TLS (security_protocol)"
        if self._was_answered or protocol not in ("plaintext", "ssl"):
            return ""
        return f"; {MAY_WANT} its clients to sign in (security_protocol, sasl_mechanism, username)"

    def _wait_for_first_byte(self, asked: str) -> None:
        """Nobody waits for long without a word."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return
        if (self._socket.gettimeout() or 0) > WORDLESS_S and not select.select([self._socket], [], [], WORDLESS_S)[0]:
            log.warning("waiting for the broker at %s to answer %s", self.endpoint, asked)

    def _receive(self, size: int) -> bytes:
        if not 0 <= size <= REPLY_BYTES_MAX:
            raise WireError(f"a reply of {size} bytes is announced")
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(min(size - len(received), 1 << 20))
            if not piece:
                raise ConnectionError("the connection was closed")
            received += piece
        return bytes(received)

    def taken_over(self) -> tuple[socket.socket, float | None]:
        """The socket, for whoever goes on with it in another way, and until when, on the monotonic clock, it may be used."""
        return self._socket, self._good_until

    @property
    def closed(self) -> bool:
        """Whether it is of no more use."""
        return self._socket.fileno() < 0 or (self._good_until is not None and time.monotonic() >= self._good_until)

    def close(self) -> None:
        self._socket.close()


def is_for_librdkafka_only(config: Mapping[str, Any]) -> bool:
    """Whether the properties ask for something that only librdkafka can do, such as Kerberos."""
    signs_in = protocol_of(config) in SIGNED_IN
    return any(config.get(name) for name in FOREIGN) or (signs_in and is_foreign(config))


def speaks_tls(address: str) -> str:
    return f"{address} speaks TLS, and this client plain text; set security_protocol to SSL or SASL_SSL"


def unsupported(sentence: str) -> BrokerError:
    code = ErrorCode.UNSUPPORTED_VERSION
    return BrokerError(sentence, code=code, name=code.name)
