"""A small synchronous client for the calls that librdkafka does not offer: transactions, producers, quotas, reassignments.

One connection per broker, one request at a time, the newest version that both sides know.  TLS and signing in are set by
librdkafka's properties, so that one configuration serves both.
"""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self

from headrace.client.broker_connection import BrokerConnection, Endpoint
from headrace.client.contact import address_of
from headrace.client.errors import BrokerError, BrokerTimeout
from headrace.model.errors import ErrorCode
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

CoordinatorKind = Literal["group", "transaction"]

_COORDINATOR_KEY_TYPES: Final[Mapping[CoordinatorKind, int]] = {"group": 0, "transaction": 1}
# The first question may be what makes the coordinators' topic come to be.
_COORDINATOR_IS_COMING: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
RETRY_S: Final = 0.1


class WireAdmin:
    """Calls to a cluster: to any broker, to a certain one, to the controller, to a coordinator or to a partition's leader."""

    def __init__(
        self,
        bootstrap: str,
        config: Mapping[str, Any] | None = None,
        *,
        client_id: str = "headrace-admin",
        timeout_s: float = 15.0,
    ) -> None:
        """`config` are librdkafka's properties, for TLS and for signing in."""
        self._config = config or {}
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
            if connection is not None:
                connection.close()
            connection = BrokerConnection(endpoint, self._config, client_id=self._client_id, timeout_s=self._timeout_s)
            self._connections[endpoint] = connection
        return connection


def raise_for(code: int, subject: str, message: str | None = None) -> None:
    """An error code of a reply as an exception; nothing when it is NONE."""
    if code == ErrorCode.NONE:
        return
    known = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
    said = message or known.name.replace("_", " ").lower()
    raise BrokerError(f"{subject}: {said} ({known.name})", code=code, name=known.name, retriable=known.retriable)


def _endpoint(text: str) -> Endpoint:
    return Endpoint(*address_of(text))
