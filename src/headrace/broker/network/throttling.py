"""Where quotas meet requests: what a reply says about waiting, and the connection that then rests.

What brokers ask of each other is not held back: a quota for everybody must not cost anybody a replica.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from headrace.controller.image import CurrentImage
from headrace.model.errors import ErrorCode, RequestError
from headrace.security.quotas import THROTTLE_S_MAX, Bucket, Quotas
from headrace.wire.messages.fetch import FetchableTopicResponse
from headrace.wire.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from headrace.broker.network.dispatch import RequestContext

Answer = TypeVar("Answer")

# What there may be too much of.
PRODUCE, FETCH, TIME, MUTATIONS, CONNECTIONS = "produce", "fetch", "request_time", "mutations", "connections"


class Timed(Generic[Answer]):
    """Awaits something, and counts the seconds for which the event loop works on it, not those for which it waits."""

    def __init__(self, awaitable: Awaitable[Answer], monotonic: Callable[[], float]) -> None:
        self._awaitable = awaitable
        self._monotonic = monotonic
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, Answer]:
        steps = self._awaitable.__await__()
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


class Throttling:
    """What this broker asks of clients that use more than their quotas.  With none set it is not asked at all."""

    def __init__(
        self,
        quotas: Quotas,
        image: CurrentImage,
        now: Callable[[], float],
        size_of: Callable[[str], int],
        throttled: "defaultdict[str, float] | None" = None,
        is_broker: Callable[["RequestContext"], bool] = lambda context: False,
    ) -> None:
        """`now` is the event loop's time; `size_of` tells how many bytes a topic holds; in `throttled` the seconds are counted
        for which clients were asked to wait, by what there was too much of; `is_broker` tells who is exempt."""
        self._throttled = throttled if throttled is not None else defaultdict(float)
        self.is_broker = is_broker
        self.quotas = quotas
        self._image = image
        self._now = now
        self._size_of = size_of

    def after_produce(self, request: ProduceRequest, context: "RequestContext") -> int:
        """The throttle time in milliseconds for a Produce reply."""
        if not self.quotas.active or self.is_broker(context):
            return 0
        sizes: dict[str, int] = {}
        for topic in request.topic_data:
            name = self._name_of(topic.topic_id, topic.name)
            sizes[name] = sizes.get(name, 0) + sum(len(data.records or b"") for data in topic.partition_data)
        now, user, client_id = self._now(), context.principal.name, context.client_id or ""
        wait = self.quotas.on_produced(user, client_id, sizes, now)
        return self._hold_back_for(PRODUCE, wait, self.quotas.on_worked(user, client_id, 0.0, now), context)

    def after_fetch(self, results: list[FetchableTopicResponse], context: "RequestContext") -> int:
        """The throttle time in milliseconds for a Fetch reply to a consumer."""
        if not self.quotas.active:
            return 0
        sizes: dict[str, int] = {}
        for topic in results:
            name = self._name_of(topic.topic_id, topic.topic)
            sizes[name] = sizes.get(name, 0) + sum(len(data.records or b"") for data in topic.partitions)
        return self.after_reading(sizes, context)

    def after_reading(self, sizes: Mapping[str, int], context: "RequestContext") -> int:
        """The throttle time in milliseconds after so many bytes of topics were read for a consumer."""
        if not self.quotas.active:
            return 0
        now, user, client_id = self._now(), context.principal.name, context.client_id or ""
        wait = self.quotas.on_fetched(user, client_id, sizes, now)
        return self._hold_back_for(FETCH, wait, self.quotas.on_worked(user, client_id, 0.0, now), context)

    def _name_of(self, topic_id: UUID, name: str) -> str:
        known = self._image().topics_by_id.get(topic_id)
        return known.name if known is not None else name

    def after_work(self, seconds: float, context: "RequestContext") -> int:
        """The broker's own time counts too: the throttle time in milliseconds after so much of it."""
        if self.is_broker(context):
            return 0
        owed = self.quotas.on_worked(context.principal.name, context.client_id or "", seconds, self._now())
        return self._hold_back_for(TIME, 0.0, owed, context)

    def _hold_back_for(self, kind: str, for_bytes: float, for_time: float, context: "RequestContext") -> int:
        """Hold the connection back for the longer of both; in milliseconds, as the client is told."""
        seconds = max(for_bytes, for_time)
        if seconds <= 0:
            return 0
        self._throttled[kind if for_bytes >= for_time else TIME] += seconds
        context.connection.hold_back(seconds)
        return max(1, round(seconds * 1000))

    def with_wait(self, response: Any, seconds: float, context: "RequestContext") -> Any:
        """A response that says how long to wait after the work it took, where it has a word for that."""
        throttle_ms = self.after_work(seconds, context)
        if throttle_ms > getattr(response, "throttle_time_ms", throttle_ms):
            return replace(response, throttle_time_ms=throttle_ms)
        return response

    def mutations(self, context: "RequestContext", *, strict_from: int) -> "Mutations":
        """What a request that creates or deletes partitions is held to; versions before `strict_from` are refused nothing."""
        now = self._now()
        bucket = self.quotas.mutations(context.principal.name, context.client_id or "", now) if self.quotas.active else None
        return Mutations(bucket, now, context, self._throttled, is_strict=context.api_version >= strict_from)

    def connection_wait(self, address: str) -> float:
        """How long a connection that just came is left alone before it is turned away; 0 when it is welcome."""
        seconds = self.quotas.on_connected(address, self._now()) if self.quotas.active else 0.0
        if seconds > 0:
            self._throttled[CONNECTIONS] += seconds
        return seconds

    def require_room(self, topic: str) -> None:
        """Raise when a topic has used up the storage it was given."""
        if not self.quotas.active or (limit := self.quotas.storage_limit(topic)) is None:
            return
        if self._size_of(topic) >= limit:
            raise RequestError(
                ErrorCode.POLICY_VIOLATION, f"Topic '{topic}' has used up its storage_bytes quota of {limit:.0f} bytes."
            )


class Mutations:
    """The partitions that one request creates or deletes, held to its client's `controller_mutation_rate` (KIP-599).

    The bucket may be overdrawn by one operation, however large, and takes no other until the debt is paid.  Versions that know
    THROTTLING_QUOTA_EXCEEDED hear it for each topic that must wait; to older ones nothing is refused, and they wait afterwards.
    """

    def __init__(
        self,
        bucket: Bucket | None,
        now: float,
        context: "RequestContext",
        throttled: "defaultdict[str, float]",
        *,
        is_strict: bool,
    ) -> None:
        self._bucket = bucket
        self._throttled = throttled
        self._now = now
        self._context = context
        self._is_strict = is_strict
        self._wait = 0.0

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

    def with_wait(self, response: Answer) -> Answer:
        """The response, which says how long to wait; the connection rests meanwhile, if not for hours."""
        if self._wait <= 0:
            return response
        self._throttled[MUTATIONS] += self._wait
        self._context.connection.hold_back(min(self._wait, THROTTLE_S_MAX))
        return replace(response, throttle_time_ms=max(1, round(self._wait * 1000)))  # type: ignore[type-var]
