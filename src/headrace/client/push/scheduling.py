"""Push, without its threads: what may be worked on, in which order, and what may be committed.

Shared by the threaded and the asyncio subscriptions, which only run callbacks.  Always: records of one lane are worked on
one after the other; a record counts as finished when its callback has returned (and the future that it returned, if it did,
has ended well), its error was taken by `on_error`, or its dead-letter topic has acknowledged it; what belongs to a partition
that was taken away is forgotten.  Every method may be called from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from confluent_kafka import Message

from headrace.client.arguments import Duration, choice, whole_number
from headrace.client.consumer.offsets import Positions
from headrace.client.deadletter.deadletter import DeadLetters, Failure, Parking, check_dead_letters, parking_of
from headrace.client.errors import DecodeFailed, HeadraceError, StillRunning
from headrace.client.push.committable import Committable
from headrace.client.push.handlers import NothingDone, plain_function_or_none, refuse_unrun
from headrace.client.push.lanes import Lanes
from headrace.client.records.record import Delivery, Record, place_of
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.consumer.feed import Feed

# Records started and not committable, over all partitions: one that is tried again for long may not make this grow without bound.
UNCOMMITTED_MAX = 20_000
OnError = Callable[[Record[Any, Any], BaseException], object]


@dataclass(slots=True, eq=False)
class Task:
    """One record on its way through."""

    lane: Hashable
    place: TopicPartition
    committable: Committable
    record: Record[Any, Any]
    undecodable: DecodeFailed | None = None  # then there is nothing to call back with, and `record` has the bytes
    failure: Failure | None = None
    parking: int = 0  # attempts to park it; above zero, parking is what is to be done
    brief: bool = False
    error: BaseException | None = None  # of the future that its callback returned; a worker is to see to it

    def what_failed(self) -> BaseException | None:
        """Why there is nothing to call back with; of a future's error only once, so that a later attempt calls again."""
        error, self.error = self.error, None
        return error or self.undecodable


class Schedule:
    """The records of one subscription that are waiting or being worked on, and what follows from how each one went."""

    def __init__(
        self,
        feed: Feed,
        *,
        order: str,
        pending_max: int,
        dead_letters: DeadLetters | None,
        on_error: OnError | None,
    ) -> None:
        choice("order", order, ("key", "partition"))
        plain_function_or_none("on_error", on_error, "a Record and the exception")
        check_dead_letters(dead_letters)
        self.changed = threading.Condition()
        self.error: BaseException | None = None  # what ends the subscription
        self._parking = None if dead_letters is None else parking_of(dead_letters)
        self._feed = feed
        self._by_key = order == "key"
        self._pending_max = whole_number("pending_max", pending_max, at_least=1)
        self._on_error = on_error
        self._lanes: Lanes[Task] = Lanes()
        self._committable: dict[TopicPartition, Committable] = {}
        self._keyless = count()

    def room(self) -> int:
        """How many more records may come in."""
        with self.changed:
            uncommitted = sum(map(len, self._committable.values()))
            return min(self._pending_max - len(self._lanes), UNCOMMITTED_MAX - uncommitted)

    def accept(self, messages: Iterable[Message]) -> None:
        """Records, in the order of their offsets."""
        decode = self._feed.reader.decode_one
        messages = list(messages)
        try:
            prepared = [(message, decode(message)) for message in messages]
        except BaseException:
            # `on_undecodable` raised, which ends the subscription: none of these is lost to who reads on.
            self._feed.reader.ready.extendleft(reversed(messages))
            raise
        with self.changed:
            for message, outcome in prepared:
                self._add(message, outcome)
            self.changed.notify_all()

    def _add(self, message: Message, outcome: Record[Any, Any] | DecodeFailed | None) -> None:
        place = place_of(message)
        committable = self._committable.get(place)
        if committable is None:
            committable = self._committable[place] = Committable()
        offset = message.offset() or 0
        committable.start(offset)
        if outcome is None:
            self._finish(place, committable, offset)
        elif isinstance(outcome, DecodeFailed):
            alone = next(self._keyless)
            self._lanes.add(alone, Task(alone, place, committable, outcome.record, outcome))
        else:
            lane = self._lane(place, message)
            self._lanes.add(lane, Task(lane, place, committable, outcome))

    def _lane(self, place: TopicPartition, message: Message) -> Hashable:
        if not self._by_key:
            return place
        key = message.key()
        # Nothing orders records without a key against each other: each has a lane of its own.
        return next(self._keyless) if key is None else (place.topic, key)

    def take(self) -> Task | None:
        """Work that may be done now; inside `changed`."""
        taken = self._lanes.take(time.monotonic())
        return None if taken is None else taken[1]

    def wait_for_work(self, timeout: float) -> None:
        """Until something changes or a delayed record is due; inside `changed`."""
        self.changed.wait(self.seconds_to_next_due(timeout))

    def seconds_to_next_due(self, at_most: float) -> float:
        due = self._lanes.next_due()
        return at_most if due is None else max(0.0, min(at_most, due - time.monotonic()))

    def returned(self, task: Task, returned: object) -> None:
        """A callback returned.  With a future, the record is finished when that is; with what nobody runs, nothing was done."""
        if isinstance(returned, Future):
            returned.add_done_callback(lambda done: self._future_ended(task, done))
            return
        try:
            refuse_unrun("callback", returned)
        except NothingDone as error:
            self.give_up(task, error)
        else:
            self.finished(task)

    def _future_ended(self, task: Task, done: Future[Any]) -> None:
        error = CancelledError("the future that the callback returned was cancelled") if done.cancelled() else done.exception()
        if error is None:
            self.finished(task)
        else:
            task.error = error
            self._again(task, 0.0)

    def finished(self, task: Task) -> None:
        with self.changed:
            self._lanes.done(task.lane)
            self._finish(task.place, task.committable, task.record.offset)
            self.changed.notify_all()

    def _finish(self, place: TopicPartition, committable: Committable, offset: int) -> None:
        moved = committable.finish(offset)
        if moved and self._committable.get(place) is committable:
            assert committable.next_offset is not None
            self._feed.offsets.finish({place: committable.next_offset})

    def failed(self, task: Task, error: BaseException) -> None:
        """A callback raised: try again later, park, hand to `on_error`, or end the subscription."""
        task.failure = Failure.again(error, task.failure)
        if self._parking is not None and isinstance(error, Exception):
            self._try_again_or_park(self._parking, task, task.failure)
        elif self._on_error is not None and isinstance(error, Exception):
            self._hand_to_on_error(self._on_error, task, error)
        else:
            self.give_up(task, error)

    def _try_again_or_park(self, letters: Parking, task: Task, failure: Failure) -> None:
        try:
            wait = letters.wait_after(failure)
        except BaseException as second:  # of somebody's `retry` or `backoff`
            self.give_up(task, second)
            return
        task.parking = 1 if wait is None else 0
        self._again(task, wait or 0.0)

    def _hand_to_on_error(self, on_error: OnError, task: Task, error: Exception) -> None:
        try:
            refuse_unrun("on_error", on_error(task.record, error))
        except BaseException as second:
            self.give_up(task, second)
        else:
            self.finished(task)

    def park(self, task: Task, answered: Callable[[], object] = lambda: None) -> None:
        """Send it off; `answered` is called when the dead-letter topic has said yes or no.  No worker waits for that: a
        dead-letter topic that is away holds back only this lane."""
        letters, failure, feed = self._parking, task.failure, self._feed
        assert letters is not None
        assert failure is not None

        def note(parked: Future[Delivery]) -> None:
            error = parked.exception()
            if error is None:
                self.finished(task)
            elif isinstance(error, HeadraceError):
                self._parking_failed(task, error)
            else:
                self.give_up(task, error)
            answered()

        try:
            parked = letters.park(task.record, failure, way=feed.way, group=feed.group, brief=task.brief)
        except HeadraceError as error:
            self._parking_failed(task, error)
        except Exception as error:
            self.give_up(task, error)
        else:
            parked.add_done_callback(note)

    def _parking_failed(self, task: Task, error: HeadraceError) -> None:
        assert self._parking is not None
        try:
            task.brief, wait = self._parking.after_parking_failed(error, task.parking, task.brief)
        except HeadraceError as hopeless:
            self.give_up(task, hopeless)
            return
        task.parking += 1
        self._again(task, wait)

    def _again(self, task: Task, wait: float) -> None:
        with self.changed:
            self._lanes.delay(task.lane, time.monotonic() + wait)
            self.changed.notify_all()

    def give_up(self, task: Task, error: BaseException) -> None:
        """Nothing can be done about this record: it stays unfinished, and the subscription ends with its error."""
        with self.changed:
            self.error = self.error or error
            self._lanes.delay(task.lane, float("inf"))
            self.changed.notify_all()

    def before_revoke(self, places: frozenset[TopicPartition], timeout: float) -> None:
        """These partitions go to somebody else: start nothing more of theirs, and give what runs a while to end."""
        deadline = time.monotonic() + timeout
        with self.changed:
            self._lanes.drop(lambda task: task.place in places)
            while any(task.place in places for task in self._lanes.out()) and (left := deadline - time.monotonic()) > 0:
                self.changed.wait(left)
            for place in places:
                self._committable.pop(place, None)
            self.changed.notify_all()

    def wait_until_idle(self, deadline: float) -> None:
        """Until nothing is out any more: records being parked are out without a worker."""
        with self.changed:
            while self._lanes.out() and (left := deadline - time.monotonic()) > 0:
                self.changed.wait(left)

    def still_running(self, timeout: Duration) -> StillRunning:
        with self.changed:
            where = ", ".join(f"{task.place.topic}[{task.place.partition}]@{task.record.offset}" for task in self._lanes.out())
        return StillRunning(f"callbacks still run after {timeout} s, with: {where or 'the fetch'}")

    def raise_error(self) -> None:
        """Raise what ended the subscription, once."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    def unfinished(self) -> Positions:
        """Where each partition has to be read again from, because not all that was taken from it is finished."""
        with self.changed:
            return {
                place: first
                for place, committable in self._committable.items()
                if (first := committable.first_unfinished) is not None
            }
