"""Where quotas meet requests: what a reply says about waiting, and the connection that then rests.

What brokers ask of each other is not held back: a quota for everybody must not cost anybody a replica.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.broker.cluster.peers import PEER
from headrace.model.errors import ErrorCode, RequestError
from headrace.security.quotas import THROTTLE_S_MAX
from headrace.wire.messages.fetch import FetchableTopicResponse
from headrace.wire.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from headrace.broker.app import Broker
    from headrace.broker.network.dispatch import RequestContext

ANONYMOUS = "ANONYMOUS"  # whoever has not said who they are

Answer = TypeVar("Answer")


class Timed(Generic[Answer]):
    """Awaits something, and counts the seconds for which the event loop works on it, not those for which it waits."""

    def __init__(self, work: Awaitable[Answer], monotonic: Callable[[], float]) -> None:
        self._work = work
        self._monotonic = monotonic
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, Answer]:
        steps = self._work.__await__()
        thrown: BaseException | None = None
        while True:
            began = self._monotonic()
            try:
                waiting_for = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as stop:
                answer: Answer = stop.value
                return answer
            finally:
                self.seconds += self._monotonic() - began
            thrown = None
            try:
                yield waiting_for
            except BaseException as error:
                thrown = error


def after_produce(broker: "Broker", request: ProduceRequest, context: "RequestContext") -> int:
    """The throttle time in milliseconds for a Produce reply."""
    if not broker.quotas.active:
        return 0
    sizes: dict[str, int] = {}
    for topic in request.topic_data:
        known = broker.image.topics_by_id.get(topic.topic_id)
        name = known.name if known is not None else topic.name
        sizes[name] = sizes.get(name, 0) + sum(len(data.records or b"") for data in topic.partition_data)
    now, client_id = broker.loop.time(), context.client_id or ""
    wait = broker.quotas.on_produced(ANONYMOUS, client_id, sizes, now)
    return _rest(max(wait, broker.quotas.on_worked(ANONYMOUS, client_id, 0.0, now)), context)


def after_fetch(broker: "Broker", results: list[FetchableTopicResponse], context: "RequestContext") -> int:
    """The throttle time in milliseconds for a Fetch reply to a consumer."""
    if not broker.quotas.active:
        return 0
    sizes: dict[str, int] = {}
    for topic in results:
        known = broker.image.topics_by_id.get(topic.topic_id)
        name = known.name if known is not None else topic.topic
        sizes[name] = sizes.get(name, 0) + sum(len(data.records or b"") for data in topic.partitions)
    now, client_id = broker.loop.time(), context.client_id or ""
    wait = broker.quotas.on_fetched(ANONYMOUS, client_id, sizes, now)
    return _rest(max(wait, broker.quotas.on_worked(ANONYMOUS, client_id, 0.0, now)), context)


def after_work(broker: "Broker", seconds: float, context: "RequestContext") -> int:
    """The broker's own time counts too: the throttle time in milliseconds after so much of it."""
    if _is_broker(broker, context.client_id):
        return 0
    return _rest(broker.quotas.on_worked(ANONYMOUS, context.client_id or "", seconds, broker.loop.time()), context)


def told(broker: "Broker", response: Any, seconds: float, context: "RequestContext") -> Any:
    """A response that says how long to wait after the work it took, where it has a word for that."""
    throttle_ms = after_work(broker, seconds, context)
    if throttle_ms > getattr(response, "throttle_time_ms", throttle_ms):
        return replace(response, throttle_time_ms=throttle_ms)
    return response


class Mutations:
    """The partitions that one request creates or deletes, held to its client's `controller_mutation_rate` (KIP-599).

    The bucket may be overdrawn by one operation, however large, and takes no other until the debt is paid.  Versions that know
    THROTTLING_QUOTA_EXCEEDED hear it for each topic that must wait; to older ones nothing is refused, and they wait afterwards.
    """

    def __init__(self, broker: "Broker", context: "RequestContext", *, strict_from: int) -> None:
        self._context = context
        self._now = broker.loop.time()
        self._is_strict = context.api_version >= strict_from
        self._wait = 0.0
        self._bucket = broker.quotas.mutations(ANONYMOUS, context.client_id or "", self._now) if broker.quotas.active else None

    @property
    def are_limited(self) -> bool:
        return self._bucket is not None

    def charge(self, partitions: int) -> None:
        """Count what is about to be done; RequestError when it must wait."""
        if self._bucket is None:
            return
        if self._is_strict and (owing := self._bucket.wait_for(0.0, self._now)):
            self._wait = owing
            raise RequestError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"controller_mutation_rate is exceeded; try again in {owing:.1f} s.",
            )
        owing = self._bucket.take(partitions, self._now)
        if not self._is_strict:
            self._wait = owing

    def told(self, response: Answer) -> Answer:
        """The response, which says how long to wait; the connection rests meanwhile, if not for hours."""
        if self._wait <= 0:
            return response
        self._context.connection.rest(min(self._wait, THROTTLE_S_MAX))
        return replace(response, throttle_time_ms=max(1, round(self._wait * 1000)))  # type: ignore[type-var]


def connection_wait(broker: "Broker", address: str) -> float:
    """How long a connection that just came is left alone before it is turned away; 0 when it is welcome."""
    return broker.quotas.on_connected(address, broker.loop.time()) if broker.quotas.active else 0.0


def _is_broker(broker: "Broker", client_id: str | None) -> bool:
    prefix, _, number = (client_id or "").rpartition("-")
    return prefix == PEER and number.isdecimal() and int(number) in broker.image.brokers


def require_room(broker: "Broker", topic: str) -> None:
    """Raise when a topic has used up the storage it was given."""
    if not broker.quotas.active or (limit := broker.quotas.storage_limit(topic)) is None:
        return
    if broker.topic_sizes.size_of(topic) >= limit:
        raise RequestError(
            ErrorCode.POLICY_VIOLATION, f"Topic '{topic}' has used up its storage_bytes quota of {limit:.0f} bytes."
        )


def _rest(seconds: float, context: "RequestContext") -> int:
    if seconds <= 0:
        return 0
    context.connection.rest(seconds)
    return max(1, round(seconds * 1000))
