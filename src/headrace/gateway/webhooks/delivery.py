"""Delivering one subscription: a lane for each partition, in order; the offset moves after a 2xx, or after a dead letter is kept.

Always: an attempt is made only while this gateway's lease holds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.client.deadletter.deadletter import PREFIX as LETTER
from headrace.gateway.brokers.group_offsets import commit, committed_notes
from headrace.gateway.brokers.reader import Readers
from headrace.gateway.brokers.tails import Shown
from headrace.gateway.metrics import Figures
from headrace.gateway.serving.tasks import Tasks
from headrace.gateway.webhooks.patience import Breaker, backoff_s, retry_after_s
from headrace.gateway.webhooks.posting import LeaseLost, Outcome, Poster, body_of
from headrace.gateway.webhooks.subscription import Subscription

if TYPE_CHECKING:
    from headrace.gateway.callers.caller import Caller

logger = logging.getLogger(__name__)

KEPT_DELIVERIES: Final = 200
COMMIT_S: Final = 0.2
READ_BYTES: Final = 1024 * 1024
WAIT_S: Final = 5.0
PARTITIONS_S: Final = 30.0
GONE: Final = 410


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt."""

    at: int
    partition: int
    offset: int
    records: int
    attempt: int
    status: int | None
    duration_ms: float
    error: str | None


@dataclass(slots=True)
class Tried:
    """What was tried of the delivery of some records, from the first offset to the last."""

    first: int
    last: int
    began_ms: int
    attempts: int = 0
    again_at: float = 0.0  # not before
    reason: str = ""


class Ended(Exception):
    """The endpoint wants nothing any more."""


class Courier:
    """Delivers one subscription for as long as it runs."""

    def __init__(
        self,
        subscription: Subscription,
        good_secrets: list[str],
        caller: Caller,
        poster: Poster,
        breaker: Breaker,
        holds_lease: Callable[[], bool],
        figures: Figures | None = None,
    ) -> None:
        self._figures = figures or Figures()
        self._subscription = subscription
        self._wanted = subscription.wanted
        self._secrets = good_secrets
        self._caller = caller
        self._poster = poster
        self._breaker = breaker
        self._holds_lease = holds_lease
        self.deliveries: deque[Delivery] = deque(maxlen=KEPT_DELIVERIES)
        self.tried: dict[int, Tried] = {}  # by partition
        self._done: dict[int, int] = {}
        self._committed: dict[int, int] = {}

    async def run(self) -> None:
        """Returns when partitions were added; raises Ended, or whatever brokers say."""
        tasks = Tasks()
        positions = await self._positions()
        lanes = [tasks.spawn(self._lane(each, offset), "deliver a partition") for each, offset in positions.items()]
        lanes += [
            tasks.spawn(self._commit_again_and_again(), "commit what is delivered"),
            tasks.spawn(self._until_partitions_are_added(len(positions)), "look for new partitions"),
        ]
        try:
            done, _ = await asyncio.wait(lanes, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await tasks.close()
            if self._holds_lease():
                await self._commit()

    async def _positions(self) -> dict[int, int]:
        """Where the group goes on; a replay counts until somebody has committed under it."""
        wanted, subscription = self._wanted, self._subscription
        partitions = list(await self._caller.cluster.leaders(wanted.topic))
        notes = await committed_notes(self._caller.cluster, wanted.group, wanted.topic, partitions)
        begins = {**dict.fromkeys(partitions, 0), **subscription.begins}
        return {
            each: notes[each][0]
            if each in notes and (not subscription.replay or _replay_in(notes[each][1]) >= subscription.replay)
            else begins[each]
            for each in partitions
        }

    async def _until_partitions_are_added(self, count: int) -> None:
        while len(await self._caller.cluster.leaders(self._wanted.topic)) == count:
            await asyncio.sleep(PARTITIONS_S)

    # A lane

    async def _lane(self, partition: int, offset: int) -> None:
        readers = Readers(self._caller.cluster, self._wanted.topic, {partition: offset}, self._wanted.isolation)
        try:
            while True:
                found = await readers.read(records_max=max(self._wanted.batch, 100), bytes_max=READ_BYTES, wait_s=WAIT_S)
                chosen = [each for each in found if self._wanted.filter.wants(each.record)]
                for start in range(0, len(chosen), self._wanted.batch):
                    part = chosen[start : start + self._wanted.batch]
                    await self._deliver(part)
                    self._done[partition] = part[-1].record.offset + 1
                self._done[partition] = readers.positions[partition]
        finally:
            readers.close()

    async def _deliver(self, records: list[Shown]) -> None:
        body, media_type = body_of(records, self._wanted.format, self._wanted.batch)
        first = records[0]
        message_id = f"{self._subscription.id}_{first.place.partition}_{first.record.offset}"
        tried = self._tried_before(records)
        while tried.attempts < self._wanted.attempts:
            await asyncio.sleep(max(0.0, tried.again_at - time.monotonic()))
            outcome = await self._attempt(body, media_type, message_id)
            tried.attempts += 1
            tried.reason = outcome.error or ""
            self._note(records, tried.attempts, outcome)
            if outcome.is_delivered:
                del self.tried[first.place.partition]
                self._figures.delivered += len(records)
                return
            if outcome.status == GONE:
                raise Ended
            wait = max(backoff_s(tried.attempts), retry_after_s(outcome.retry_after, time.time()))
            tried.again_at = time.monotonic() + wait
        await self._park(records, tried)
        del self.tried[first.place.partition]

    def _tried_before(self, records: list[Shown]) -> Tried:
        """Attempts are counted over the courier's own end, when its principal signs in again or a broker was away; a batch that
        has grown meanwhile is another one."""
        partition, first, last = records[0].place.partition, records[0].record.offset, records[-1].record.offset
        tried = self.tried.get(partition)
        if tried is None or (tried.first, tried.last) != (first, last):
            tried = self.tried[partition] = Tried(first, last, now_ms())
        return tried

    async def _attempt(self, body: bytes, media_type: str, message_id: str) -> Outcome:
        while True:
            # The breaker is asked last: whoever it lets look has to do so, or nobody else would.
            while wait := self._breaker.wait_s(time.monotonic()) if self._holds_lease() else COMMIT_S:
                await asyncio.sleep(wait)
            try:
                outcome = await self._post(body, media_type, message_id)
                break
            except LeaseLost:
                self._breaker.gave_up()
            except BaseException:
                self._breaker.gave_up()
                raise
        self._figures.on_attempt(outcome)
        # An endpoint that answers, whatever it thinks of a record, is there.
        if outcome.status is not None and (outcome.status < 500 and outcome.status != 429):
            self._breaker.succeeded()
        else:
            self._breaker.failed(time.monotonic())
        return outcome

    async def _post(self, body: bytes, media_type: str, message_id: str) -> Outcome:
        wanted = self._wanted
        return await self._poster.post(
            wanted.callback_url, body, media_type, message_id, self._secrets, wanted.timeout_ms / 1000, self._holds_lease
        )

    def _note(self, records: list[Shown], attempt: int, outcome: Outcome) -> None:
        first = records[0]
        self.deliveries.append(
            Delivery(
                now_ms(),
                first.place.partition,
                first.record.offset,
                len(records),
                attempt,
                outcome.status,
                round(outcome.duration_ms, 2),
                outcome.error,
            )
        )

    async def _park(self, records: list[Shown], tried: Tried) -> None:
        """Keep what could not be delivered, in the form that `headrace dead-letter` knows; the caller's own right to write there
        decides."""
        for shown in records:
            facts: Mapping[str, Any] = {
                "topic": shown.place.topic,
                "partition": shown.place.partition,
                "offset": shown.record.offset,
                "group": self._wanted.group,
                "cause": "attempts",
                "reason": tried.reason,
                "attempts": self._wanted.attempts,
                "first-failed-at": _iso(tried.began_ms),
                "last-failed-at": _iso(now_ms()),
            }
            headers = [*shown.record.headers, *((f"{LETTER}{name}", str(fact).encode()) for name, fact in facts.items())]
            await self._caller.producer.send(
                self._subscription.dead_letter_topic, shown.record.value, key=shown.record.key, headers=headers
            )
            self._figures.dead += 1

    # Offsets

    async def _commit_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            if self._holds_lease():
                await self._commit()

    async def _commit(self) -> None:
        moved = {each: offset for each, offset in self._done.items() if self._committed.get(each) != offset}
        if moved:
            note = f"replay {self._subscription.replay}"
            await commit(self._caller.cluster, self._wanted.group, self._wanted.topic, moved, note)
            self._committed |= moved


def _replay_in(note: str | None) -> int:
    word, _, number = (note or "").partition(" ")
    return int(number) if word == "replay" and number.isdecimal() else 0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _iso(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(milliseconds // 1000))
