"""Where quotas meet requests: what a reply says about waiting, and the connection that then rests.

What brokers ask of each other is not held back: a quota for everybody must not cost anybody a replica.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.broker.peers import PEER
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.fetch import FetchableTopicResponse
from headrace.wire.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from headrace.broker.app import Broker
    from headrace.broker.dispatch import RequestContext

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


def _is_broker(broker: "Broker", client_id: str | None) -> bool:
    prefix, _, number = (client_id or "").rpartition("-")
    return prefix == PEER and number.isdecimal() and int(number) in broker.image.brokers


def require_room(broker: "Broker", topic: str) -> None:
    """Raise when a topic has used up the storage it was given."""
    if broker.quotas.active:
        stored = sum(p.log.size_bytes for p in broker.replicas.of_topic(topic) if p.is_leader)
        if broker.quotas.is_full(topic, stored):
            raise RequestError(ErrorCode.POLICY_VIOLATION, f"Topic '{topic}' has used up its storage quota.")


def _rest(seconds: float, context: "RequestContext") -> int:
    if seconds <= 0:
        return 0
    context.connection.rest(seconds)
    return max(1, round(seconds * 1000))
