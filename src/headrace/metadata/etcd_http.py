"""Requests to a group of etcd members over their JSON gateway.

One member is used until it fails, then the next.  Only members that know a leader answer (`hasleader`): one that is cut off from
the others refuses instead of serving the past.  A failure says whether the request can have reached the server.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import field
from typing import Any

import aiohttp
import orjson

from headrace.declaring import dataclass
from headrace.metadata.store import StoreRefused, StoreUnavailable

logger = logging.getLogger(__name__)

ATTEMPT_TIMEOUT_S = 2.0
WORDLESS_S = 1.5  # nobody waits for longer without a word
PAUSE_AFTER_ROUND_S = 0.1
UNAUTHENTICATED = 16
# Unknown (a proposal that raft dropped while leaders changed, for one), deadline exceeded, resource exhausted, internal,
# unavailable: another member, or the same a little later, may do better.
UNAVAILABLE_CODES = frozenset({2, 4, 8, 13, 14})
REASON_BYTES_MAX = 200
LINE_BYTES_MAX = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdAddress:
    """How to reach etcd: `http(s)://host:port` of each member, a trust store and a password where it wants them."""

    endpoints: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ssl_context: ssl.SSLContext | None = None


class EtcdError(StoreRefused):
    """etcd answered, and refused."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Unanswered(Exception):
    """No answer from this member.  `reached`: whether the request may have been carried out all the same."""

    def __init__(self, message: str, *, reached: bool) -> None:
        super().__init__(message)
        self.reached = reached


class EtcdHttp:
    """Sends to one member after the other."""

    def __init__(self, address: EtcdAddress) -> None:
        if not address.endpoints:
            raise ValueError("etcd needs at least one endpoint")
        self._address = address
        self._endpoints = tuple(endpoint.rstrip("/") for endpoint in address.endpoints)
        self._current = 0
        self._token: str | None = None
        self._session: aiohttp.ClientSession | None = None
        self._checked: set[str] = set()
        self._streams: dict[aiohttp.ClientResponse, str] = {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def rotate(self) -> None:
        self._current = (self._current + 1) % len(self._endpoints)

    def log_in_again(self) -> None:
        """A stream was refused, and does not say clearly whether for want of a token that still counts."""
        self._token = None

    async def call(self, path: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Ask until somebody answers: for what may be asked twice.  Raises EtcdError, StoreUnavailable."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        attempt = 0
        word = loop.call_later(WORDLESS_S, logger.warning, "waiting for etcd to answer at %s", ", ".join(self._endpoints))
        try:
            while True:
                try:
                    return await self.call_once(path, body)
                except Unanswered as error:
                    attempt += 1
                    if attempt % len(self._endpoints) == 0:
                        await asyncio.sleep(PAUSE_AFTER_ROUND_S)
                    if loop.time() >= deadline:
                        raise StoreUnavailable(f"etcd does not answer: {error}") from error
        finally:
            word.cancel()

    async def call_quickest(self, path: str, body: dict[str, Any], stagger_s: float) -> dict[str, Any]:
        """Ask one member, and the next whenever that takes long, without giving up on those before: the first answer counts.

        For what may be asked twice and must not wait for a member that went silent.  Raises EtcdError, StoreUnavailable."""
        first = self._current
        attempts: dict[asyncio.Task[dict[str, Any]], str] = {}
        failures: list[str] = []
        try:
            for number in range(len(self._endpoints)):
                endpoint = self._endpoints[(first + number) % len(self._endpoints)]
                attempts[asyncio.create_task(self._call_at(endpoint, path, body))] = endpoint
                is_last = number == len(self._endpoints) - 1
                answer = await self._first_answer(attempts, failures, None if is_last else stagger_s)
                if answer is not None:
                    return answer
        finally:
            for attempt in attempts:
                attempt.cancel()
        raise StoreUnavailable(f"etcd does not answer: {'; '.join(failures)}")

    async def _first_answer(
        self, attempts: "dict[asyncio.Task[dict[str, Any]], str]", failures: list[str], timeout_s: float | None
    ) -> dict[str, Any] | None:
        """The first good answer among attempts under way; None when the time is over or all have failed."""
        while attempts:
            done, _ = await asyncio.wait(attempts, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                return None
            for attempt in done:
                endpoint = attempts.pop(attempt)
                error = attempt.exception()
                if error is None:
                    if endpoint != self._endpoints[self._current]:
                        self._rotate_from(self._endpoints[self._current], to=endpoint)
                    return attempt.result()
                if not isinstance(error, Unanswered):
                    raise error
                failures.append(str(error))
        return None

    async def call_once(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask the current member once; move on to the next when it does not answer."""
        return await self._call_at(self._endpoints[self._current], path, body)

    async def _call_at(self, endpoint: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(ATTEMPT_TIMEOUT_S):
                await self._prepare(endpoint)
                return await self._post(endpoint, path, body)
        except Unanswered:
            self._rotate_from(endpoint)
            raise
        except aiohttp.ClientConnectorError as error:
            self._rotate_from(endpoint)
            raise Unanswered(f"{endpoint}: {error}", reached=False) from error
        except (TimeoutError, aiohttp.ClientError, ConnectionError) as error:
            self._rotate_from(endpoint)
            raise Unanswered(f"{endpoint}: {str(error) or 'no answer in time'}", reached=True) from error

    async def stream(self, path: str, body: dict[str, Any], idle_timeout_s: float) -> AsyncIterator[dict[str, Any]]:
        """Lines of an answer that goes on.  Ends when nothing came for a while, or with Unanswered."""
        endpoint = self._endpoints[self._current]
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=ATTEMPT_TIMEOUT_S, sock_read=idle_timeout_s)
        try:
            async with asyncio.timeout(ATTEMPT_TIMEOUT_S):
                await self._prepare(endpoint)
                opened = await self._open().post(
                    endpoint + path, data=orjson.dumps(body), headers=self._headers(), timeout=timeout
                )
            async with opened as reply:
                if reply.status != 200:
                    raise self._refusal(endpoint, reply.status, await reply.read())
                self._streams[reply] = endpoint
                try:
                    async for line in _lines(reply.content):
                        yield orjson.loads(line)
                finally:
                    del self._streams[reply]
        except aiohttp.SocketTimeoutError:
            return
        except EtcdError as error:
            self._rotate_from(endpoint)
            raise Unanswered(f"{endpoint}: {error}", reached=False) from error
        except (TimeoutError, aiohttp.ClientError, ConnectionError) as error:
            self._rotate_from(endpoint)
            raise Unanswered(f"{endpoint}: {error}", reached=True) from error

    def _rotate_from(self, endpoint: str, to: str | None = None) -> None:
        # Several requests may fail on one member at once: only the first moves on.
        if self._endpoints[self._current] == endpoint:
            if to is None:
                self.rotate()
            else:
                self._current = self._endpoints.index(to)
        # A stream from there would say nothing for as long as nobody notices; and this has just been noticed.
        for stream, source in list(self._streams.items()):
            if source == endpoint:
                stream.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._address.ssl_context or True, limit=32)
            self._session = aiohttp.ClientSession(connector=connector, read_bufsize=1 << 20)
        return self._session

    def _headers(self) -> dict[str, str]:
        headers = {"Grpc-Metadata-hasleader": "true", "Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = self._token
        return headers

    async def _prepare(self, endpoint: str) -> None:
        if endpoint not in self._checked:
            async with self._open().get(endpoint + "/version") as reply:
                content = await reply.read()
            try:
                version = str(orjson.loads(content)["etcdserver"])
            except (orjson.JSONDecodeError, TypeError, KeyError):
                raise Unanswered(f"{endpoint}: what answers there is not etcd (HTTP {reply.status})", reached=False) from None
            check_version(endpoint, version)
            self._checked.add(endpoint)
        if self._address.user is not None and self._token is None:
            body = {"name": self._address.user, "password": self._address.password or ""}
            answer = await self._post(endpoint, "/v3/auth/authenticate", body)
            self._token = str(answer["token"])

    async def _post(self, endpoint: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with self._open().post(endpoint + path, data=orjson.dumps(body), headers=self._headers()) as reply:
            content = await reply.read()
            if reply.status != 200:
                raise self._refusal(endpoint, reply.status, content)
            answer: dict[str, Any] = orjson.loads(content)
            if isinstance(answer.get("error"), dict):
                raise self._refusal(endpoint, reply.status, content)
            return answer

    def _refusal(self, endpoint: str, status: int, content: bytes) -> Exception:
        try:
            code, message = refusal_in(orjson.loads(content))
        except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError):
            return Unanswered(
                f"{endpoint}: HTTP {status} {content[:REASON_BYTES_MAX].decode(errors='replace').strip()}", reached=True
            )
        if code == UNAUTHENTICATED and self._token is not None:
            self._token = None  # it expires after a while: the next attempt logs in again
            return Unanswered(f"{endpoint}: {message}", reached=False)
        if code in UNAVAILABLE_CODES:
            return Unanswered(f"{endpoint}: {message}", reached=True)
        return EtcdError(code, message)


def refusal_in(answer: dict[str, Any]) -> tuple[int, str]:
    """The code and the message of a refusal.  Where an answer is a stream, the gateway wraps them in an object of their own."""
    wrapped = answer.get("error")
    if isinstance(wrapped, dict):
        return int(wrapped.get("grpc_code", -1)), str(wrapped.get("message"))
    return int(answer.get("code", -1)), str(answer.get("message") or wrapped)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length: one event batch is one line, and a topic may have ten thousand partitions."""
    parts: list[bytes] = []
    size = 0
    async for chunk in content.iter_any():
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            yield b"".join((*parts, line))
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > LINE_BYTES_MAX:
            raise ConnectionError(f"a line of more than {LINE_BYTES_MAX} bytes")


def check_version(endpoint: str, version: str) -> None:
    """Refuse releases that are known to lose data after a crash."""
    if version in {"3.5.0", "3.5.1", "3.5.2"}:
        raise StoreRefused(f"etcd {version} at {endpoint} can lose data after a crash; upgrade it to 3.5.3 or newer")
    numbers: Sequence[str] = version.split(".")
    if (int(numbers[0]), int(numbers[1])) < (3, 4):
        raise StoreRefused(f"etcd {version} at {endpoint} is too old; 3.4 or newer is needed")
