"""Which requests are followed, and what is kept of one while it is under way.

Two want to know: the logger `headrace.requests`, which writes a line for each request at DEBUG, and OpenTelemetry, which gets
spans of a sample (`headrace.trace.sample.ratio`).  Always: while neither does, a request costs one look at `is_on`; and the loop
only gathers numbers, of which a thread makes spans.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from headrace.broker.administration import logger_levels
from headrace.broker.metrics.figures import ApiFigures, TraceFigures
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.tracing.export import SpanThread
from headrace.controller.image import CurrentImage
from headrace.declaring import dataclass
from headrace.host.clock import Clock
from headrace.host.disk import Buffer
from headrace.metrics.log_lines import REQUEST_LOG
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.model.live_config import LiveConfig
from headrace.wire.apis import ApiKey, api_name
from headrace.wire.messages.produce import TopicProduceResponse

# A line for each request.  Not by `--verbose`, which means the broker: whoever wants these sets its level.
logger = logging.getLogger(REQUEST_LOG)
logger.setLevel(logging.INFO)

RATIO: Final = "headrace.trace.sample.ratio"
# What may be looked into for the records' own traces; larger requests are not.
LOOKED_AT_BYTES_MAX = 65_536
PLACES_MAX = 20  # in a line, or a span


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A request that is over: what a line or a span tells of it."""

    request_id: str
    api_key: int
    api_version: int
    client_id: str
    user: str
    host: str
    port: int | None
    # When it came, was started, worked on, answered and sent; in seconds before `at_ms`, when it was sent.
    ago: tuple[float, float, float, float]
    at_ms: int
    errors: tuple[str, ...]
    places: tuple[str, ...]
    frame: bytes | None
    is_given_up: bool

    @property
    def api(self) -> str:
        return api_name(self.api_key)

    def __str__(self) -> str:
        came, started, worked, answered = (seconds * 1000 for seconds in self.ago)
        phases = f"queue {came - started:.2f}, work {started - worked:.2f}, wait {worked - answered:.2f}, send {answered:.2f}"
        line = f"{self.api} v{self.api_version} request {self.request_id} of {self.client_id!r} as {self.user}: "
        line += "its connection ended first" if self.is_given_up else f"{came:.2f} ms ({phases})"
        line += f"; {', '.join(self.places)}" if self.places else ""
        return line + (f"; {', '.join(self.errors)}" if self.errors else "")


class Trail:
    """Asked for each request by the dispatcher."""

    def __init__(self, broker_id: int, config: LiveConfig, image: CurrentImage, clock: Clock, figures: TraceFigures) -> None:
        self.is_on = False
        self._broker_id = broker_id
        self._config = config
        self._image = image
        self._clock = clock
        self._figures = figures
        self._ratio = 0.0
        self._due = 0.0
        self._spans: SpanThread | None = None
        logger_levels.tell_changes(self.adjust)
        self.adjust()

    def adjust(self) -> None:
        """The settings, or a logger's level, may have changed."""
        self._ratio = self._config.now[RATIO]
        if self._ratio > 0 and self._spans is None:
            self._spans = SpanThread(self._broker_id, self._config.now["headrace.trace.otlp.endpoint"], self._figures)
        self.is_on = self._ratio > 0 or logger.isEnabledFor(logging.DEBUG)

    def close(self) -> None:
        """Waits for what was handed over; for a thread."""
        self.is_on = False
        if self._spans is not None:
            self._spans.close()

    def follow(self, frame: Buffer, context: RequestContext, reply: PendingReply) -> None:
        """A request begins, and is counted: keep an eye on it, if somebody wants it."""
        self._due += self._ratio
        sampled = self._due >= 1
        self._due -= sampled
        if sampled or logger.isEnabledFor(logging.DEBUG):
            assert reply.figures is not None
            looked_at = sampled and context.api_key == ApiKey.PRODUCE and len(frame) <= LOOKED_AT_BYTES_MAX
            reply.figures = Followed(self, reply.figures, context, bytes(frame) if looked_at else None, sampled)

    def name_of(self, topic_id: UUID, name: str) -> str:
        known = self._image().topics_by_id.get(topic_id)
        return name if known is None else known.name

    def ended(self, followed: "Followed", times: Sequence[float], *, is_given_up: bool = False) -> None:
        context, sent = followed.context, times[-1]
        ended = Ended(
            request_id=followed.request_id,
            api_key=context.api_key,
            api_version=context.api_version,
            client_id=context.client_id or "",
            user=context.principal.name,
            host=context.client_host,
            port=followed.port,
            ago=(sent - times[0], sent - times[1], sent - times[2], sent - times[3]),
            at_ms=self._clock.wall_ms(),
            errors=tuple(ErrorCode(code).name for code in followed.errors),
            places=tuple(followed.places),
            frame=followed.frame,
            is_given_up=is_given_up,
        )
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s", ended)
        if followed.sampled and self._spans is not None:
            self._spans.take(ended)


class Followed(ApiFigures):
    """Stands where a request is counted, and keeps what it hears there before it counts on."""

    __slots__ = ("_counted", "_trail", "context", "frame", "places", "port", "request_id", "sampled")

    follows = True

    def __init__(self, trail: Trail, counted: ApiFigures, context: RequestContext, frame: bytes | None, sampled: bool) -> None:
        # Not the base's: the histograms are those of the API.
        self._trail = trail
        self._counted = counted
        self.context = context
        # Now, as a socket that is closed does not tell.
        self.request_id = context.connection.request_id(context.correlation_id)
        self.port = context.connection.client_port
        self.frame = frame
        self.sampled = sampled
        self.errors = defaultdict(int)
        self.places: list[str] = []

    def note_written(self, results: Iterable[TopicProduceResponse]) -> None:
        """Batches of a Produce request got these offsets."""
        for topic in results:
            name = self._trail.name_of(topic.topic_id, topic.name)
            for result in topic.partition_responses:
                if result.base_offset >= 0:
                    self._note(f"wrote {name}-{result.index} from {result.base_offset}")

    def note_read(self, identity: TopicPartition, offset: int, count: int) -> None:
        """So many offsets of a partition are in the reply, from this one on."""
        self._note(f"read {identity.topic}-{identity.partition} from {offset} to {offset + count - 1}")

    def _note(self, place: str) -> None:
        if len(self.places) < PLACES_MAX:
            self.places.append(place)

    def on_sent(self, arrived: float, started: float, worked: float, answered: float, sent: float) -> None:
        self._counted.on_sent(arrived, started, worked, answered, sent)
        self._count_errors()
        self._trail.ended(self, (arrived or started, started, worked, max(worked, answered), sent))

    def on_given_up(self) -> None:
        self._counted.on_given_up()
        self._count_errors()
        now = self.context.connection.figures.monotonic()
        self._trail.ended(self, (now,) * 5, is_given_up=True)

    def _count_errors(self) -> None:
        for code, count in self.errors.items():
            self._counted.errors[code] += count
