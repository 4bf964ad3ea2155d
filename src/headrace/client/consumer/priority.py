"""Reading several topics by priority: each has a weight, and a share of the records that goes by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from headrace.client.arguments import Duration, mapping, seconds, topic_name, whole_number
from headrace.client.consumer.consumer import Consumer
from headrace.client.consumer.feed import feed_of
from headrace.client.consumer.weighted_choice import WeightedTurns
from headrace.client.errors import InvalidArgument
from headrace.client.records.record import Record
from headrace.client.records.serialization import Format

if TYPE_CHECKING:
    from headrace.client.options import ConsumerOptions
    from headrace.client.tracing.handling import Handling

# How long one topic is listened to while all of them are empty.
LISTEN_S = 0.05


class PriorityConsumer:
    """Reads several topics, some more urgently than others.  Use it in a `with` block; read from one thread at a time.

    While all topics have records, each gets a share by its weight; one that is empty costs the others nothing, and none starves:
    with weights 9 and 1 every tenth record is of the second topic at the least.  At any moment at most one record of each topic
    is held here, so that an urgent one that arrives waits for no more than one other.

    Args:
        weights: Topics and their weights, whole numbers from 1 on: `{"urgent": 9, "jobs": 1}`.
        bootstrap: `host:port`, or several; else `HEADRACE_BOOTSTRAP` from the environment, else 127.0.0.1:9092.
        keys: How keys are read, as for Consumer.
        values: The same for values.
        settings: What else Consumer takes: `group`, `start`, …  Delivery is at least once.
    """

    def __init__(
        self,
        weights: Mapping[str, int],
        *,
        bootstrap: str | Iterable[str] | None = None,
        keys: Format[Any] = bytes,
        values: Format[Any] = bytes,
        **settings: Unpack[ConsumerOptions],
    ) -> None:
        checked = mapping("weights", weights, "topics and their weights")
        if not checked:
            raise InvalidArgument("weights={} is not accepted; accepted: topics and their weights")
        for name, weight in checked.items():
            topic_name("weights", name)
            whole_number(f"weights[{name!r}]", weight, at_least=1)
        for refused in ("delivery", "instance_id", "dead_letters"):
            if refused in settings:
                raise InvalidArgument(
                    f"{refused} is not accepted by PriorityConsumer; accepted: a Consumer for each topic with it"
                )
        self._turns = WeightedTurns(checked)
        self._consumers: dict[str, Consumer[Any, Any]] = {}
        self._ready: dict[str, Record[Any, Any]] = {}
        self._handling: Handling | None = None
        self._is_closed = False
        try:
            for name in checked:
                self._consumers[name] = Consumer(name, bootstrap=bootstrap, keys=keys, values=values, **settings)
                # What a consumer hands out waits here for its turn: only then somebody works on it.
                feed = feed_of(self._consumers[name])
                self._handling, feed.handling = self._handling or feed.handling, None
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Record[Any, Any]]:
        return self.records()

    def records(self, timeout: Duration | None = None) -> Iterator[Record[Any, Any]]:
        """Records by priority as they come; ends when none has come for `timeout`, or when the consumer is closed."""
        limit = None if timeout is None else seconds("timeout", timeout)
        while not self._is_closed and (record := self._next(limit)) is not None:
            yield record

    def poll(self, timeout: Duration = 1.0) -> Record[Any, Any] | None:
        """The next record by priority, or None when there is none within `timeout`."""
        return self._next(seconds("timeout", timeout))

    def _next(self, timeout: float | None) -> Record[Any, Any] | None:
        """Asking for the next one says that those before are processed: each topic is asked only once its last one was."""
        self._end_handling(None)
        self._look(0.0)
        waited = 0.0
        while not self._ready and not self._is_closed and (timeout is None or waited < timeout):
            left = LISTEN_S if timeout is None else min(LISTEN_S, timeout - waited)
            self._look(left / len(self._consumers))
            waited += left
        chosen = self._turns.next(self._ready)
        record = None if chosen is None else self._ready.pop(chosen)
        if self._handling is not None and record is not None:
            self._handling.begin((record,), single=True)
        return record

    def _end_handling(self, error: BaseException | None) -> None:
        if self._handling is not None:
            self._handling.end(error)

    def _look(self, seconds_each: float) -> None:
        for name, consumer in self._consumers.items():
            if name not in self._ready and (record := consumer.poll(seconds_each)) is not None:
                self._ready[name] = record

    def commit(self) -> None:
        """Commit what is processed of every topic."""
        for consumer in self._consumers.values():
            consumer.commit()

    def close(self) -> None:
        """Commit what is processed, and leave the group.  The record last handed out is not taken as processed; a `with` block
        that ends without an exception does that."""
        self._close(is_finished=False)

    def _close(self, *, is_finished: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._end_handling(None)
        for name, consumer in self._consumers.items():
            # What waits here was not handed out: whoever comes next reads it.
            if is_finished and name not in self._ready:
                consumer.__exit__(None, None, None)
            else:
                consumer.close()
        self._ready.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end_handling(error)
        self._close(is_finished=error is None)
