"""One connection to one broker on an event loop: TLS and signing in where librdkafka's properties ask for them, then calls, many
at a time.  A broker answers a connection's requests in order: who wants to wait long takes a connection of its own.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
import time
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from headrace.client.broker_connection import (
    AUTHENTICATE_VERSION,
    HANDSHAKE_VERSION,
    LIFE_USED,
    REPLY_BYTES_MAX,
    Endpoint,
    Unreachable,
    unsupported,
)
from headrace.client.contact import address_of
from headrace.client.errors import BrokerTimeout, SecurityFailed
from headrace.client.security.sasl import SIGNED_IN, mechanism_of, messages_of, names_mechanism
from headrace.client.security.tls import context_of, is_encrypted, protocol_of, tls_failure
from headrace.model.access.scram_client import NotTheirAnswer
from headrace.model.errors import ErrorCode
from headrace.wire.apis import ApiKey
from headrace.wire.apis import messages_of as messages_of_api
from headrace.wire.codec import decode, encode
from headrace.wire.errors import WireError
from headrace.wire.framing import RequestHeader, read_response_header, request_frame
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Reply = TypeVar("Reply")
CONNECT_S: Final = 5.0
CALL_S: Final = 15.0
_NUMBER: Final = struct.Struct(">i")


class Connection(asyncio.Protocol):
    """Made by `connect`."""

    def __init__(self, endpoint: Endpoint, client_id: str) -> None:
        self.endpoint = endpoint
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._correlation_id = 0
        self._good_until: float | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self.closed = False

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are, and do not say so

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _NUMBER.size:
            (length,) = _NUMBER.unpack_from(self._buffer)
            if not 4 <= length <= REPLY_BYTES_MAX:
                self.close("what answers there is no broker")
                return
            end = _NUMBER.size + length
            if len(self._buffer) < end:
                return
            frame = bytes(memoryview(self._buffer)[_NUMBER.size : end])
            del self._buffer[:end]
            waiting = self._waiting.pop(_NUMBER.unpack_from(frame)[0], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(tls_failure(exc, str(self.endpoint)) if isinstance(exc, ssl.SSLError) else self._lost("it was closed"))

    def close(self, why: str = "it was closed") -> None:
        self._fail(self._lost(why))
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Without the last words of TLS, for which a loop that ends has no time."""
        self._fail(self._lost("it was closed"))
        if self._transport is not None:
            self._transport.abort()

    def _lost(self, why: str) -> BrokerTimeout:
        return BrokerTimeout(f"the connection to the broker at {self.endpoint} is lost: {why}")

    def _fail(self, error: Exception) -> None:
        self.closed = True
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)

    # Calls

    @property
    def usable(self) -> bool:
        return not self.closed and (self._good_until is None or time.monotonic() < self._good_until)

    async def call(self, request: Any, *, timeout: float = CALL_S, version_max: int | None = None) -> Any:
        """Send a request and wait for its reply."""
        version = self.version_of(request, version_max)
        return await self._exchange(request, messages_of_api(ApiKey(request.api.key)).response, version, timeout)

    def version_of(self, request: Any, version_max: int | None = None) -> int:
        api, name = request.api, ApiKey(request.api.key).name
        if api.key not in self._versions:
            raise unsupported(f"the broker at {self.endpoint} does not know {name}")
        lowest, highest = self._versions[api.key]
        ours = api.versions[-1] if version_max is None else min(api.versions[-1], version_max)
        version = min(highest, ours)
        if version < max(lowest, api.versions[0]):
            raise unsupported(f"the broker at {self.endpoint} speaks versions {lowest} to {highest} of {name}, which we do not")
        return int(version)

    async def _exchange(self, request: Any, reply: type[Reply], version: int, timeout: float) -> Reply:
        if self.closed or self._transport is None:
            raise self._lost("it was closed")
        self._correlation_id += 1
        correlation_id = self._correlation_id
        header = RequestHeader(request.api.key, version, correlation_id, self._client_id)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        self._transport.write(b"".join(request_frame(header, [encode(request, version)])))
        try:
            async with asyncio.timeout(timeout):
                frame = await future
            _, position = read_response_header(frame, request.api.key, version)
            return decode(reply, frame, version, position)
        except TimeoutError:
            self.close("a broker that is late may be stuck")
            name = ApiKey(request.api.key).name
            raise BrokerTimeout(f"the broker at {self.endpoint} did not answer {name} within {timeout:g} s") from None
        except WireError as error:
            self.close("it answered what cannot be read")
            raise BrokerTimeout(f"the broker at {self.endpoint} answered what cannot be read: {error}") from None
        finally:
            self._waiting.pop(correlation_id, None)

    # The first words

    async def introduce(self, config: Mapping[str, Any]) -> None:
        request = ApiVersionsRequest(client_software_name="headrace", client_software_version="0")
        reply = await self._exchange(request, ApiVersionsResponse, 0, CONNECT_S)
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}
        if protocol_of(config) in SIGNED_IN:
            await self._sign_in(config)
        else:
            await self._require_that_nobody_signs_in()

    async def _sign_in(self, config: Mapping[str, Any]) -> None:
        if not names_mechanism(config):
            # Kerberos, which librdkafka would try, is not spoken here, and a failed sign-in is in the audit trail.
            raise SecurityFailed(f"{self.endpoint} wants its clients to sign in, and no credentials are given")
        mechanism = mechanism_of(config)
        handshake = await self._exchange(
            SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, HANDSHAKE_VERSION, CONNECT_S
        )
        if handshake.error_code:
            known = ", ".join(handshake.mechanisms) or "none"
            raise SecurityFailed(f"the brokers do not take {mechanism} for these credentials; they take {known}")
        messages = messages_of(config)
        try:
            message = next(messages)
            while True:
                reply = await self._exchange(
                    SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, AUTHENTICATE_VERSION, CALL_S
                )
                if reply.error_code:
                    raise SecurityFailed("the brokers do not accept these credentials")
                # A password is hashed some thousand times here, which is no work for an event loop.
                step = await asyncio.to_thread(_send, messages, bytes(reply.auth_bytes))
                if step is None:
                    break
                message = step
        except NotTheirAnswer:
            raise SecurityFailed(f"{self.endpoint} is not the broker that it should be") from None
        if reply.session_lifetime_ms:
            self._good_until = time.monotonic() + reply.session_lifetime_ms / 1000 * LIFE_USED

    async def _require_that_nobody_signs_in(self) -> None:
        """Who has to sign in and does not would see nothing but closed connections."""
        if ApiKey.SASL_HANDSHAKE not in self._versions:
            return
        handshake = await self._exchange(SaslHandshakeRequest(mechanism=""), SaslHandshakeResponse, HANDSHAKE_VERSION, CONNECT_S)
        if handshake.error_code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM):
            raise SecurityFailed(f"{self.endpoint} wants its clients to sign in, and no credentials are given")


def _send(messages: Any, answer: bytes) -> bytes | None:
    """A generator's StopIteration cannot leave a coroutine."""
    try:
        following: bytes = messages.send(answer)
    except StopIteration:
        return None
    return following


async def connect(endpoint: Endpoint, config: Mapping[str, Any], *, client_id: str) -> Connection:
    """A connection on which calls can be made.  Raises BrokerTimeout, or SecurityFailed where we are not let in."""
    context = context_of(config)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            _, connection = await loop.create_connection(
                lambda: Connection(endpoint, client_id),
                endpoint.host,
                endpoint.port,
                ssl=context,
                server_hostname=endpoint.host if context is not None else None,
            )
    except ssl.SSLError as error:
        raise tls_failure(error, str(endpoint)) from None
    except TimeoutError:
        raise Unreachable(endpoint, "it does not accept the connection in time") from None
    except OSError as error:
        raise Unreachable(endpoint, error.strerror or str(error)) from None
    try:
        await connection.introduce(config)
    except BaseException:
        connection.close()
        raise
    return connection


async def greet(bootstrap: str, way: Mapping[str, Any], *, client_id: str) -> None:
    """Return when a broker answers.  Raises BrokerTimeout, or SecurityFailed where one wants to know first who asks."""
    last: BrokerTimeout | None = None
    bare = {name: value for name, value in way.items() if name.startswith("ssl.")}
    config = {**bare, "security.protocol": "SSL" if is_encrypted(way) else "PLAINTEXT"}
    for text in bootstrap.split(","):
        try:
            (await connect(Endpoint(*address_of(text)), config, client_id=client_id)).close()
            return
        except BrokerTimeout as error:
            last = error
    raise last or BrokerTimeout("no broker address was given")
