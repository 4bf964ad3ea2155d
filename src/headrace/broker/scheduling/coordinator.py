"""Schedules on this broker, where it leads `__headrace_schedules`: taken from clients, fired when due, sent by way of what waits.

A firing is staged as a delayed record that is due: under a producer that is this schedule's and a sequence that is its number, so
that one that is sent again is recognised there, and delivered once.
"""

import asyncio
import logging
import struct
from functools import partial
from hashlib import blake2b

from headrace.broker.coordinators.led_shard import LedShard
from headrace.broker.coordinators.roles import RoleFollower
from headrace.broker.coordinators.shards import Shards
from headrace.broker.delaying.context import TimedContext
from headrace.broker.delaying.entries import DelayEntryCodec, staged_payload
from headrace.broker.delaying.staging import Staging
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.broker.scheduling.entries import ScheduleEntryCodec
from headrace.broker.scheduling.placing import Places
from headrace.broker.scheduling.times import earlier, next_after
from headrace.broker.supervision.supervision import Rule, Scope, Service
from headrace.coordination.delay.entries import Staged, Target
from headrace.coordination.schedule.entries import Definition, Firing, ScheduleProgress
from headrace.coordination.schedule.shard import Answer, Change, ScheduleShard
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.log.producers.producer_state import BATCHES_KEPT, LASTING_PRODUCER_ID_FROM
from headrace.model.broker_settings import BrokerConfig
from headrace.model.delay.headers import headers_when_delivered
from headrace.model.delay.schedules import HEADER_DUE, HEADER_NAME
from headrace.model.errors import RequestError
from headrace.model.names import SCHEDULES
from headrace.records.batch import build_batch
from headrace.records.header import SEQUENCE_MAX
from headrace.records.record import Record

logger = logging.getLogger(__name__)

PARTITION = 0
PAUSE_S = 1.0
CODEC = DelayEntryCodec()


class ScheduleCoordinator:
    """Make one before the replicas start, so that it hears of each role they take; `close` it before they stop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        staging: Staging,
        places: Places,
        replica_changes: ReplicaChanges,
        clock: Clock,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        scope: Scope,
    ) -> None:
        self._staging = staging
        self._scope = scope
        context: TimedContext[ScheduleShard] = TimedContext(
            topic=SCHEDULES,
            codec=ScheduleEntryCodec(),
            make_shard=lambda: ScheduleShard(next_after, earlier, places.of),
            clock=clock,
            scope=scope,
            write_timeout_s=config["request.timeout.ms"] / 1000,
            on_committed=self._on_committed,
            clock_confirmed_after_ms=config["headrace.delay.clock.confirm.ms"],
        )
        self.shards: Shards[ScheduleShard] = Shards(context, lambda name: PARTITION)
        # By name: what sends its firings, and in which term as leader.
        self._underway: dict[str, tuple[int, Service]] = {}
        RoleFollower(SCHEDULES, self.shards, replica_changes, disk, loop)

    async def change(self, change: Change) -> Answer:
        """Make, change, remove or run a schedule; the answer comes when that is committed."""
        return await self.shards.ask(change.name, ScheduleShard.change, change)

    def look_at_clock(self) -> None:
        """The clock was set, in a test: something may be due."""
        for led in self.shards.loaded():
            led.look_at_clock()

    def close(self) -> None:
        for _, service in self._underway.values():
            service.cancel()
        self.shards.close()

    def _on_committed(self, led: LedShard[ScheduleShard]) -> None:
        for definition, _ in list(led.shard.underway()):
            term, service = self._underway.get(definition.name, (led.term, None))
            if service is not None and term != led.term:
                service.cancel()
            if service is None or service.is_over or term != led.term:
                send = partial(self._send, led, definition.name)
                service = self._scope.run("firing", send, Rule.RESTART, subject=definition.name)
                self._underway[definition.name] = led.term, service

    async def _send(self, led: LedShard[ScheduleShard], name: str) -> None:
        """All that is on its way of one schedule, in order, for as long as this broker leads: no more at once than are recognised
        when they are sent again."""
        while self.shards.term(led.index) == led.term and led.is_loaded:
            found = next((each for each in led.shard.underway() if each[0].name == name), None)
            if found is None:
                return
            definition, progress = found
            firings = progress.underway[:BATCHES_KEPT]
            try:
                # What is not committed yet may be taken back, and fired otherwise.
                await led.look(lambda shard: None)
                for firing in firings:
                    await self._staging.keep(firing.target, staged_batch(definition, progress, firing))
            except RequestError as error:
                logger.warning("schedule %s: what was due at %d waits: %s", name, firings[0].due_ms, error)
                await asyncio.sleep(PAUSE_S)
                continue
            led.take_news(led.shard.sent(name, firings))


def staged_batch(definition: Definition, progress: ScheduleProgress, firing: Firing) -> bytes:
    """A firing as an entry among what waits, due at once."""
    headers = (*definition.headers, (HEADER_NAME, definition.name.encode()), (HEADER_DUE, b"%d" % firing.due_ms))
    record = Record(0, firing.due_ms, definition.key, definition.value, headers_when_delivered(headers, firing.due_ms))
    whole = f"{definition.name} {progress.made_ms} {firing.number}".encode()
    uid = int.from_bytes(blake2b(whole, digest_size=8).digest(), "big") >> 1
    staged = Staged(uid, firing.due_ms, firing.target, None, staged_payload(firing.target, 0, record))
    return build_batch(
        [Record(0, firing.due_ms, *CODEC.encode(staged), ())],
        producer_id=producer_of(definition.name, progress.made_ms, firing.target),
        producer_epoch=0,
        base_sequence=firing.number & SEQUENCE_MAX,
    )


def producer_of(name: str, made_ms: int, target: Target) -> int:
    """As whom a schedule writes for a target: never forgotten, and another where it is made anew under its name."""
    whole = f"{name} {made_ms} ".encode() + target.topic_id.bytes + struct.pack(">i", target.partition)
    return LASTING_PRODUCER_ID_FROM + (int.from_bytes(blake2b(whole, digest_size=8).digest(), "big") >> 2)
