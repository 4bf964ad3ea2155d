"""The audit trail of one broker: acts are recorded one by one, what happens often is aggregated, and there are bounds.

An act is recorded when its events are committed in the topic.  Denials and failed sign-ins are collected by kind: the first of a
kind is told at once, those like it together at the end of a window.  What cannot be written waits in a bounded queue; what finds
no room there is counted, and the count is told.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from headrace.broker.audit.acts.act import Act
from headrace.broker.audit.copies import Copies
from headrace.broker.audit.topic import AuditTopic, AuditUnavailable
from headrace.declaring import dataclass
from headrace.host.clock import Clock
from headrace.model.access.principals import Principal, Subject
from headrace.model.broker_settings import BrokerConfig
from headrace.security.audit.aggregation import Aggregator, Batch
from headrace.security.audit.events import CHANGES_MAX, TEXT_CHARACTERS_MAX, EventMaker, Origin, Repeats, Resource
from headrace.security.authorization.guard import Denial
from headrace.wire.apis import ApiKey

logger = logging.getLogger(__name__)

WAITING_MAX: Final = 1000  # events that could not be written yet
TELL_SECONDS: Final = 1.0
END_SECONDS_MAX: Final = 2.0
# Where acts are allowed though the trail cannot be written, none waits longer than this.
ALLOWED_SECONDS_MAX: Final = 1.0


@dataclass(frozen=True, slots=True)
class FailedSignIn:
    """Somebody did not get in."""

    origin: Origin
    mechanism: str
    reason: str


@dataclass(frozen=True, slots=True)
class RepeatedAct:
    """One of many alike."""

    origin: Origin
    api: ApiKey
    act: Act


Collected = Denial | FailedSignIn | RepeatedAct


class AuditTrail:
    """Made where it is kept at all."""

    def __init__(self, config: BrokerConfig, topic: AuditTopic, copies: Copies, events: EventMaker, clock: Clock) -> None:
        self._topic = topic
        self._copies = copies
        self._events = events
        self._clock = clock
        self._seconds: float = config["headrace.audit.timeout.ms"] / 1000
        self._refuses: bool = config["headrace.audit.when.unavailable"] == "refuse"
        self._collected: Aggregator[Collected] = Aggregator()
        self._waiting: deque[bytes] = deque()
        self._in_hand = 0  # how many of those that waited are being written
        self._is_late = False
        # How many acts were carried out whose events wait.
        self._owed = 0
        self._something = asyncio.Event()
        self._writing = asyncio.Lock()
        # For ever, and of them those that were told.
        self._dropped = 0
        self._dropped_reported = 0

    @property
    def dropped(self) -> int:
        """How many events found no room, for a metric."""
        return self._dropped + self._collected.dropped

    @property
    def copies_lost(self) -> int:
        """How many events were not copied, for a metric."""
        return self._copies.lost

    # -- acts

    async def require_writable(self) -> None:
        """Raise AuditUnavailable when an act cannot be recorded, so that it is not begun."""
        if self._refuses:
            await (self._settle() if self._owed else self._topic.wait_until_writable(self._seconds))

    async def _settle(self) -> None:
        """An act was carried out and is not recorded, wherever the trail seemed writable: no other is before that one is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await self._write_waiting(self._seconds)
        if self._owed:
            raise AuditUnavailable("what was done before is not recorded yet")

    async def record(self, origin: Origin, api: ApiKey, acts: Sequence[Act]) -> None:
        """Return when all of it is durable; AuditUnavailable when that takes too long: then it is written later."""
        now = self._clock.wall_ms()
        events = [
            event
            for act in acts
            if not act.is_repeated or self._is_first(RepeatedAct(origin, api, act), now)
            for event in self._events_of(origin, api, act, now)
        ]
        if not events:
            return
        self._copies.add(events)
        try:
            await self._topic.write(events, self._seconds if self._refuses else min(self._seconds, ALLOWED_SECONDS_MAX))
        except AuditUnavailable as error:
            self._write_later(events, str(error), len(acts))
            if self._refuses:
                raise
        except asyncio.CancelledError:
            # Nobody waits for it any more, and it was done all the same.
            self._write_later(events, "its request was given up", len(acts))
            raise

    def _write_later(self, events: Sequence[bytes], why: str, acts: int) -> None:
        self._owed += acts
        for event in events:
            logger.error("not in the audit trail yet (%s): %s", why, event.decode())
        self._wait_with(events)

    def _is_first(self, repeated: RepeatedAct, now_ms: int) -> bool:
        origin = repeated.origin
        key = (repeated.api, origin.subject, origin.client_id, repeated.act.resources, repeated.act.error)
        is_first = self._collected.is_first(key, repeated, now_ms, origin.subject.principal)
        self._something.set()
        return is_first

    def _events_of(self, origin: Origin, api: ApiKey, act: Act, time_ms: int, repeats: Repeats | None = None) -> Iterator[bytes]:
        """One, or several where the act changed very much."""
        for start in range(0, max(1, len(act.changes)), CHANGES_MAX):
            yield self._events.act(
                origin,
                api,
                act.activity,
                act.resources,
                time_ms=time_ms,
                error=act.error,
                detail=act.detail,
                changes=act.changes[start : start + CHANGES_MAX],
                repeats=repeats,
            )

    # -- what happens often

    def note_denial(self, denial: Denial) -> None:
        principal, check = denial.subject.principal, denial.check
        key = (principal, check.api, check.operation, check.resource_type, denial.name)
        self._collect(key, denial, principal)

    def note_failed_sign_in(self, origin: Origin, mechanism: str, reason: str) -> None:
        # Whoever is not signed in may give a name of half a megabyte: no more is held of it than an event shows.
        subject = origin.subject
        if len(subject.principal.name) > TEXT_CHARACTERS_MAX:
            cut = Principal(subject.principal.kind, f"{subject.principal.name[:TEXT_CHARACTERS_MAX]}…")
            origin = replace(origin, subject=Subject(cut, address=subject.address))
        failed = FailedSignIn(origin, mechanism, reason)
        self._collect((origin.subject, mechanism, reason), failed, origin.subject.address)

    def _collect(self, key: object, sample: Collected, owner: object) -> None:
        self._collected.add(key, sample, self._clock.wall_ms(), owner)
        self._something.set()

    async def tell_for_ever(self) -> None:
        """Write what is due, and what could not be written before."""
        while True:
            await self._something.wait()
            self._something.clear()
            self._take(self._collected.due(self._clock.wall_ms()))
            await self._write_waiting(self._seconds)
            if self._waiting or not self._collected.is_empty:
                self._something.set()
                await asyncio.sleep(TELL_SECONDS)

    def _take(self, batches: Sequence[Batch[Collected]]) -> None:
        events = [event for batch in batches for event in self._events_of_batch(batch)]
        dropped = self._collected.take_dropped() + self._dropped - self._dropped_reported
        self._dropped_reported = self._dropped
        if dropped:
            events.append(self._events.dropped(dropped, time_ms=self._clock.wall_ms()))
        if events:
            self._copies.add(events)
            self._wait_with(events)

    def _events_of_batch(self, batch: Batch[Collected]) -> Iterator[bytes]:
        repeats = Repeats(count=batch.count, first_ms=batch.first_ms, last_ms=batch.last_ms)
        match batch.sample:
            case Denial() as denial:
                check = denial.check
                origin = Origin(subject=denial.subject) if denial.asker is None else denial.asker.origin
                resource = Resource(check.resource_type.name, denial.name)
                yield self._events.denial(
                    origin, check.api, check.operation, resource, check.error, str(denial.decision), repeats
                )
            case FailedSignIn(origin, mechanism, reason):
                yield self._events.sign_in(origin, mechanism, time_ms=batch.last_ms, failure=reason, repeats=repeats)
            case RepeatedAct(origin, api, act):
                yield from self._events_of(origin, api, act, batch.last_ms, repeats)

    # -- what waits

    def _wait_with(self, events: Iterable[bytes]) -> None:
        self._waiting.extend(events)
        self._something.set()
        while len(self._waiting) > WAITING_MAX:
            self._waiting.popleft()
            self._dropped += 1

    async def _write_waiting(self, seconds: float) -> None:
        """One after the other, so that whoever waits for it has waited for all of it."""
        async with self._writing:
            events, self._waiting = self._waiting, deque()
            self._in_hand = len(events)
            owed = self._owed
            try:
                if events:
                    await self._topic.write(events, seconds)
                    self._is_late = False
                    self._owed -= owed
            except AuditUnavailable as error:
                self._put_back(events)
                if not self._is_late:
                    self._is_late = True
                    logger.error("the audit trail cannot be written, and %d events wait: %s", len(events), error)
            except BaseException:
                self._put_back(events)
                raise
            finally:
                self._in_hand = 0

    def _put_back(self, events: deque[bytes]) -> None:
        """Before what has come meanwhile; the oldest go where there is no room."""
        newer, self._waiting = self._waiting, events
        self._wait_with(newer)

    async def close(self) -> None:
        """Tell the rest, if that does not take long."""
        self._take(self._collected.take_all())
        with suppress(TimeoutError):
            # Also where somebody else is at it, and waits for longer.
            async with asyncio.timeout(END_SECONDS_MAX):
                await self._write_waiting(min(self._seconds, END_SECONDS_MAX))
        if left := len(self._waiting) + self._in_hand:
            logger.error("%d events of the audit trail could not be written before the end", left)
        await self._copies.close()
