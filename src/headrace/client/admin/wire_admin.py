"""A small synchronous client for the calls that librdkafka does not offer: transactions, producers, quotas, reassignments.

One connection per broker, one request at a time, the newest version that both sides know.  Plain text only: a cluster that asks
for TLS or SASL is out of its reach and says so by closing the connection.
"""

import select
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from headrace.client.contact import address_of
from headrace.client.errors import BrokerError, BrokerTimeout
from headrace.client.logs import log
from headrace.model.errors import ErrorCode
from headrace.wire.apis import ApiKey, messages_of
from headrace.wire.codec import WireError, decode, encode
from headrace.wire.framing import RequestHeader, read_response_header, request_frame
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

Reply = TypeVar("Reply")
CoordinatorKind = Literal["group", "transaction"]

REPLY_BYTES_MAX: Final = 104_857_600
_COORDINATOR_KEY_TYPES: Final[Mapping[CoordinatorKind, int]] = {"group": 0, "transaction": 1}
# The first question may be what makes the coordinators' topic come to be.
_COORDINATOR_IS_COMING: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
RETRY_S: Final = 0.1
WORDLESS_S: Final = 2.0
_LENGTH: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class BrokerConnection:
    """One broker: what it speaks, asked once, and calls answered one after the other."""

    def __init__(self, endpoint: Endpoint, *, client_id: str, timeout_s: float) -> None:
        self.endpoint = endpoint
        self._client_id = client_id
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((endpoint.host, endpoint.port), timeout=timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise BrokerTimeout(f"no broker answers at {endpoint} ({error.strerror or error})") from None
        self._versions = self._negotiate()

    def _negotiate(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="headrace", client_software_version="0")
        # Version 0 is understood by every broker, and its answer is all that we need.
        reply = self._exchange(request, ApiVersionsResponse, 0)
        return {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}

    def version_of(self, request: Any) -> int:
        """The newest version of this request's API that both sides know."""
        api = request.api
        name = ApiKey(api.key).name
        if api.key not in self._versions:
            raise _unsupported(f"the broker at {self.endpoint} does not know {name}")
        lowest, highest = self._versions[api.key]
        version = min(highest, api.versions[-1])
        if version < max(lowest, api.versions[0]):
            raise _unsupported(f"the broker at {self.endpoint} speaks versions {lowest} to {highest} of {name}, which we do not")
        return int(version)

    def call(self, request: Any) -> Any:
        """Send a request and wait for its reply."""
        return self._exchange(request, messages_of(ApiKey(request.api.key)).response, self.version_of(request))

    def _exchange(self, request: Any, reply: type[Reply], version: int) -> Reply:
        self._correlation_id += 1
        header = RequestHeader(request.api.key, version, self._correlation_id, self._client_id)
        try:
            self._socket.sendall(b"".join(request_frame(header, [encode(request, version)])))
            self._wait_for_first_byte(ApiKey(request.api.key).name)
            frame = self._receive(_LENGTH.unpack(self._receive(_LENGTH.size))[0])
            correlation_id, position = read_response_header(frame, request.api.key, version)
            if correlation_id != self._correlation_id:
                raise WireError(f"the reply is to request {correlation_id}, not {self._correlation_id}")
            return decode(reply, frame, version, position)
        except (OSError, WireError) as error:
            # Half a reply may still be on its way: this connection is of no more use.
            self.close()
            raise BrokerTimeout(f"the broker at {self.endpoint} did not answer {ApiKey(request.api.key).name}: {error}") from None

    def _wait_for_first_byte(self, asked: str) -> None:
        """Nobody waits for long without a word."""
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

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    def close(self) -> None:
        self._socket.close()


class WireAdmin:
    """Calls to a cluster: to any broker, to a certain one, to the controller, to a coordinator or to a partition's leader."""

    def __init__(self, bootstrap: str, *, client_id: str = "headrace-admin", timeout_s: float = 15.0) -> None:
        self._bootstrap = [_endpoint(part) for part in bootstrap.split(",") if part.strip()]
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._connections: dict[Endpoint, BrokerConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def call(self, request: Any, *, broker: int | None = None) -> Any:
        """Ask a broker by its id, or any that answers."""
        connection = self._any() if broker is None else self._connect(self._endpoint_of(broker))
        return connection.call(request)

    def call_every_broker(self, request: Any) -> dict[int, Any]:
        """Ask every broker of the cluster; the replies by broker id."""
        return {number: self._connect(endpoint).call(request) for number, endpoint in sorted(self.brokers().items())}

    def call_controller(self, request: Any) -> Any:
        """Ask the broker that is the controller; any broker when there is none right now."""
        controller = self.metadata(topics=()).controller_id
        return self.call(request, broker=controller if controller >= 0 else None)

    def call_coordinator(self, request: Any, key: str, kind: CoordinatorKind) -> Any:
        """Ask the broker that coordinates a group or a transactional id."""
        return self._connect(self.coordinator_of(key, kind)).call(request)

    def call_leader(self, request: Any, topic: str, partition: int) -> Any:
        """Ask the broker that leads a partition."""
        return self.call(request, broker=self.leader_of(topic, partition))

    def metadata(self, topics: tuple[str, ...] | None) -> MetadataResponse:
        """The cluster as any broker sees it, with these topics; None means all.  Creates nothing."""
        wanted = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        reply: MetadataResponse = self._any().call(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        return reply

    def brokers(self) -> dict[int, Endpoint]:
        """The brokers that are up, by their ids."""
        return {broker.node_id: Endpoint(broker.host, broker.port) for broker in self.metadata(topics=()).brokers}

    def leader_of(self, topic: str, partition: int) -> int:
        """The id of the broker that leads a partition."""
        (found,) = self.metadata(topics=(topic,)).topics
        raise_for(found.error_code, f"topic {topic}")
        for candidate in found.partitions:
            if candidate.partition_index == partition:
                if candidate.leader_id < 0:
                    raise_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic} partition {partition}")
                return candidate.leader_id
        raise BrokerError(
            f"{topic} has no partition {partition}",
            code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            name=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name,
        )

    def coordinator_of(self, key: str, kind: CoordinatorKind) -> Endpoint:
        """Where the coordinator of a group or a transactional id listens."""
        request = FindCoordinatorRequest(key=key, key_type=_COORDINATOR_KEY_TYPES[kind], coordinator_keys=(key,))
        deadline = time.monotonic() + self._timeout_s
        while True:
            reply: FindCoordinatorResponse = self._any().call(request)
            # From version 4 on a request names several keys and its reply has a list; before it, one each.
            found = reply.coordinators[0] if reply.coordinators else reply
            if found.error_code not in _COORDINATOR_IS_COMING or time.monotonic() > deadline:
                raise_for(found.error_code, f"the coordinator of {key}", found.error_message)
                return Endpoint(found.host, found.port)
            time.sleep(RETRY_S)

    def _endpoint_of(self, broker: int) -> Endpoint:
        known = self.brokers()
        if broker not in known:
            raise BrokerTimeout(f"broker {broker} is not up; up are {', '.join(map(str, sorted(known))) or 'none'}")
        return known[broker]

    def _any(self) -> BrokerConnection:
        last: BrokerTimeout | None = None
        for endpoint in self._bootstrap:
            try:
                return self._connect(endpoint)
            except BrokerTimeout as error:
                last = error
        raise last or BrokerTimeout("no broker address was given")

    def _connect(self, endpoint: Endpoint) -> BrokerConnection:
        connection = self._connections.get(endpoint)
        if connection is None or connection.closed:
            connection = BrokerConnection(endpoint, client_id=self._client_id, timeout_s=self._timeout_s)
            self._connections[endpoint] = connection
        return connection


def raise_for(code: int, subject: str, message: str | None = None) -> None:
    """An error code of a reply as an exception; nothing when it is NONE."""
    if code == ErrorCode.NONE:
        return
    known = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
    said = message or known.name.replace("_", " ").lower()
    raise BrokerError(f"{subject}: {said} ({known.name})", code=code, name=known.name, retriable=known.retriable)


def _unsupported(sentence: str) -> BrokerError:
    code = ErrorCode.UNSUPPORTED_VERSION
    return BrokerError(sentence, code=code, name=code.name)


def _endpoint(text: str) -> Endpoint:
    return Endpoint(*address_of(text))
