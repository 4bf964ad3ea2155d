"""One fetch under way.  The table in `states.py` says what follows what; here it is done."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import field
from typing import Any

from headrace.broker.fetching.answering import Answers
from headrace.broker.fetching.interest import Interest
from headrace.broker.fetching.lookup import FoundTopic, cold_of
from headrace.broker.fetching.reading import Reading, Readout, estimate, read_all
from headrace.broker.fetching.states import STEPS, Action, Event, State
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.reading import warm_up
from headrace.broker.partitions.waiting import Deadlines
from headrace.broker.tracing.trail import Followed
from headrace.declaring import dataclass
from headrace.host.clock import Clock, SystemClock
from headrace.host.disk import Disk
from headrace.metrics.histogram import Seconds
from headrace.wire.messages.fetch import FetchPartition, FetchRequest

RunTask = Callable[[Coroutine[Any, Any, None], PendingReply], object]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every fetch of a broker needs."""

    loop: asyncio.AbstractEventLoop
    disk: Disk
    run_task: RunTask
    answers: Answers
    bytes_max: int
    deadlines: Deadlines
    clock: Clock = field(default_factory=SystemClock)
    cold_reads: Seconds = field(default_factory=Seconds)
    # How long a fetch waits for an object store.
    remote_wait_s: Callable[[], float] = lambda: 0.5


class Fetch:
    """It reads, and if there is too little, waits to be woken or for its time to be over."""

    __slots__ = (
        "_cold",
        "_context",
        "_has_brought",
        "_interest",
        "_reading",
        "_readout",
        "_reply",
        "_request",
        "_room_wanted",
        "_seen",
        "_surroundings",
        "_to_bring",
        "_waits_s",
        "state",
    )

    def __init__(
        self,
        request: FetchRequest,
        interest: Interest,
        reading: Reading,
        context: RequestContext,
        reply: PendingReply,
        surroundings: Surroundings,
    ) -> None:
        self.state = State.QUEUED
        self._request = request
        self._interest = interest
        self._reading = reading
        self._context = context
        self._reply = reply
        self._surroundings = surroundings
        # For how long at most; None while it does not.
        self._waits_s: float | None = None
        # What one step leaves to the next: what was found cold, how much room is wanted, what was seen, and the answer.
        self._cold: list[tuple[Partition, FetchPartition]] = []
        self._to_bring: list[tuple[Partition, FetchPartition]] = []
        self._has_brought = False
        self._room_wanted = 0
        self._seen: list[FoundTopic] = []
        self._readout: Readout | None = None

    # -- what happens to it

    def begin(self) -> None:
        """All earlier replies of the connection have left."""
        self._on(Event.AT_HEAD if self._request.max_wait_ms > 0 else Event.AT_HEAD_WITHOUT_TIME)

    def wake(self) -> None:
        """A partition has something new."""
        self._on(Event.WAKE)

    def close(self) -> None:
        """The client has gone."""
        self._on(Event.CLOSED)

    def _on_turn(self) -> None:
        self._on_if_wanted(Event.TURN)

    def _on_room(self) -> None:
        self._reply.run(self._on_if_wanted, Event.ROOM)

    def on_time_over(self) -> None:
        self._waits_s = None
        self._reply.run(self._on_if_wanted, Event.TIME_OVER)

    def _on_if_wanted(self, event: Event) -> None:
        """The connection may be closed without having been told so yet."""
        self._on(event if self._reply.is_wanted else Event.CLOSED)

    def _on(self, event: Event | None) -> None:
        while event is not None:
            self.state, action = STEPS[self.state][event]
            event = _DO[action](self)

    # -- what is done about it

    def _nothing(self) -> None:
        pass

    def _look(self) -> Event:
        found = self._interest.look()
        self._cold = cold_of(found)
        return Event.COLD if self._cold else self._read_found(found)

    def _read(self) -> Event:
        return self._read_found(self._interest.look_again())

    def _read_found(self, found: list[FoundTopic]) -> Event:
        request = self._request
        wanted = self._bytes_max
        room = self._reply.share.room_for_reply(wanted)
        if room == 0 and wanted > 0:
            # Memory is short.  What is there to be read may need much less than what was asked for at most, or nothing.
            wanted = self._room_wanted = min(wanted, estimate(found, self._reading))
            room = self._reply.share.room_for_reply(wanted)
            if room == 0 and wanted > 0:
                return Event.NO_ROOM
        readout = self._readout = read_all(found, self._reading, room)
        if self._reading.to_bring:
            return self._on_remote(readout)
        if readout.is_urgent or readout.size >= request.min_bytes or self._interest.is_empty:
            return Event.ENOUGH
        self._seen = found
        return Event.TOO_LITTLE

    def _on_remote(self, readout: Readout) -> Event:
        """Some of it is in an object store.  What is here does not wait for that; the next fetch finds it brought."""
        to_bring = list(self._reading.to_bring)
        is_first_time, self._has_brought = not self._has_brought, True
        if is_first_time and not readout.size and not readout.is_urgent:
            self._to_bring = to_bring
            return Event.COLD
        for partition, wanted in to_bring:
            assert partition.remote is not None
            partition.remote.bring(wanted.fetch_offset, wanted.partition_max_bytes)
        return Event.ENOUGH

    @property
    def _bytes_max(self) -> int:
        return min(self._request.max_bytes, self._surroundings.bytes_max)

    def _warm_up(self) -> None:
        cold, self._cold = self._cold, []
        to_bring, self._to_bring = self._to_bring, []
        work = self._bring_and_read(to_bring) if to_bring else self._warm_up_and_read(cold)
        self._surroundings.run_task(work, self._reply)

    async def _bring_and_read(self, to_bring: list[tuple[Partition, FetchPartition]]) -> None:
        """All at once.  The first that is there is answered, and the others with the fetches that follow."""
        bringing = [
            partition.remote.bring(wanted.fetch_offset, wanted.partition_max_bytes)
            for partition, wanted in to_bring
            if partition.remote is not None
        ]
        seconds = self._surroundings.remote_wait_s()
        await asyncio.wait(bringing, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        self._on_if_wanted(Event.WARMED)

    async def _warm_up_and_read(self, cold: list[tuple[Partition, FetchPartition]]) -> None:
        left = self._bytes_max
        monotonic = self._surroundings.clock.monotonic
        for partition, wanted in cold:
            size = min(left, wanted.partition_max_bytes)
            if size > 0:
                began = monotonic()
                await warm_up(self._surroundings.loop, self._surroundings.disk, partition, wanted.fetch_offset, size)
                self._surroundings.cold_reads.observe(monotonic() - began)
                left -= size
        self._on_if_wanted(Event.WARMED)

    def _wait_for_room(self) -> None:
        self._reply.share.wait_to_reply(self._room_wanted, self._on_room, first=self._reading.is_replica)
        self._start_timer()

    def _wait_for_records(self) -> Event | None:
        assert self._readout is not None
        missing = self._request.min_bytes - self._readout.size
        found, self._seen, self._readout = self._seen, [], None
        self._start_timer()
        return Event.WAKE if self._interest.wait(found, self, missing) else None

    def _start_timer(self) -> None:
        if self._waits_s is None:
            seconds = 0.0 if self.state is State.LAST_WAITING_FOR_ROOM else self._request.max_wait_ms / 1000
            self._waits_s = seconds
            self._surroundings.deadlines.join(seconds, self)

    def _look_soon(self) -> None:
        self._reply.soon(self._on_turn)

    def _compare(self) -> Event:
        return Event.GREW if self._interest.is_worth_reading() else Event.GREW_TOO_LITTLE

    def _answer_with_what_was_read(self) -> None:
        self._leave()
        readout, self._readout = self._readout, None
        assert readout is not None
        self._send(readout)

    def _answer_without_records(self) -> None:
        self._reply.share.stop_waiting_to_reply()
        self._leave()
        self._send(read_all(self._interest.look_again(), self._reading, 0, at_least_one=False))

    def _send(self, readout: Readout) -> None:
        is_replica = self._reading.is_replica
        followed = self._reply.figures if self._reply.figures is not None and self._reply.figures.follows else None
        for partition, size, offsets, first in self._reading.served:
            if followed is not None:
                assert isinstance(followed, Followed)
                followed.note_read(partition.identity, first, offsets)
            traffic = partition.traffic
            if is_replica:
                traffic.replicated_out += size
            elif self._reading.consumes:
                traffic.bytes_out += size
                traffic.records_out += offsets
        answers = self._surroundings.answers
        answers.send(readout, self._interest, self._context, self._reply, is_replica=is_replica)

    def _let_go(self) -> None:
        self._reply.share.stop_waiting_to_reply()
        self._leave()
        self._reply.let_go()

    def _leave(self) -> None:
        """Nothing wakes it any more."""
        if self._waits_s is not None:
            self._surroundings.deadlines.leave(self._waits_s, self)
            self._waits_s = None
        self._interest.leave()


_DO: dict[Action, Callable[[Fetch], Event | None]] = {
    Action.NOTHING: Fetch._nothing,
    Action.LOOK: Fetch._look,
    Action.READ: Fetch._read,
    Action.WARM_UP: Fetch._warm_up,
    Action.WAIT_FOR_ROOM: Fetch._wait_for_room,
    Action.WAIT_FOR_RECORDS: Fetch._wait_for_records,
    Action.LOOK_SOON: Fetch._look_soon,
    Action.COMPARE: Fetch._compare,
    Action.ANSWER: Fetch._answer_with_what_was_read,
    Action.ANSWER_WITHOUT_RECORDS: Fetch._answer_without_records,
    Action.LET_GO: Fetch._let_go,
}
