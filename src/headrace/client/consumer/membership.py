"""A consumer's place in its group: which partitions it has, and that it keeps them however long a record takes.

librdkafka throws a member out that does not poll, and drops what it has fetched when a partition is paused.  So a thread of
our own polls whenever the reader has been busy for a while, with the partitions paused meanwhile.  Whoever polls commits
what is finished. Always: one thread at a time uses the client (`lock`); rebalance callbacks run inside a poll, in
whichever thread that is; the first exception one of them raises comes out of the reader's next call.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from headrace.client.arguments import Config
from headrace.client.consumer.offsets import Offsets, Positions
from headrace.client.consumer.starting_point import BeyondTheEnd
from headrace.client.errors import BrokerTimeout, translate
from headrace.client.fair_lock import FairLock
from headrace.client.librdkafka import Consumer as Librdkafka
from headrace.client.librdkafka import new_consumer
from headrace.client.logs import log
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.tracing.spans import Spans

BUSY_AFTER_S = 1.0  # a reader that has not polled for so long is busy, and is stood in for
TICK_S = 0.25
EVENTS_PER_TICK_MAX = 100
PartitionsCallback = Callable[[list[TopicPartition]], object]
Locate = Callable[[list[ClientPartition]], list[ClientPartition]]


class Membership:
    """Owns librdkafka's consumer."""

    def __init__(
        self,
        config: Config,
        *,
        bootstrap: str,
        grouped: bool,
        eager: bool,
        locate: Locate,
        commit_interval: float,
        on_assigned: PartitionsCallback | None,
        on_revoked: PartitionsCallback | None,
    ) -> None:
        self.offsets = Offsets()
        self.spans: Spans | None = None
        self.lock = FairLock()
        self.arrived: deque[Message] = deque()  # fetched, and not yet taken by the reader
        self.taken_away: deque[frozenset[TopicPartition]] = deque()  # revoked since the reader last looked
        self.newly_assigned: deque[frozenset[TopicPartition]] = deque()
        self.before_revoke: Callable[[frozenset[TopicPartition]], None] | None = None
        self.commits_when_finished = True  # in the background, and when partitions are given up
        self.commits_handed_out = (
            False  # when partitions are given up: what was fetched is committed, what was not handed out goes back
        )
        self.joined = False  # whether it was ever told which partitions are its own, be it none
        self.assigned: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()  # by the user
        self.last_error: str | None = None
        self.suspicious_since: float | None = None  # since when it looks as if no broker were there
        self._standing_in: set[TopicPartition] = set()  # paused by us while the reader is busy
        self._bootstrap = bootstrap
        self._grouped = grouped
        self._eager = eager
        self._locate = locate
        self._commit_interval = commit_interval
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._callback_error: BaseException | None = None
        self._polled_at = time.monotonic()
        self._committed_at = time.monotonic()
        self._stopping = threading.Event()
        self._closed = False
        self._keeper: threading.Thread | None = None
        self.client = new_consumer({**config, "error_cb": self._note_error, "on_commit": self._note_commit})

    # Starting and ending

    def subscribe(self, topics: list[str]) -> None:
        self.suspicious_since = time.monotonic()
        self.client.subscribe(topics, on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose)
        self._start_keeper()

    def assign(self, partitions: list[ClientPartition]) -> None:
        """Without a group: these partitions, and no others."""
        self.client.assign(partitions)
        self._note_assigned(partitions)
        self._start_keeper()

    def _start_keeper(self) -> None:
        self._polled_at = time.monotonic()
        self._keeper = threading.Thread(target=self._keep, name="headrace-consumer", daemon=True)
        self._keeper.start()

    def close(self) -> None:
        self._stopping.set()
        # Ctrl-C may have come before the thread was started.
        if self._keeper is not None and self._keeper.is_alive() and self._keeper is not threading.current_thread():
            self._keeper.join()
        if self._keeper is not None:
            self._commit_before_leaving(self.assigned)
        self.before_revoke = None
        with self.lock:
            self._closed = True
            self.client.close()

    # Polling

    def poll(self, timeout: float, most: int) -> list[Message]:
        """What was fetched: wait for the first message, then take those that are there already, up to `most` in all."""
        with self.lock:
            if self._closed:
                return []
            self._come_back()
            self._commit_when_due()
            more: list[Message] = []
            if not self.arrived and (first := self._poll_client(timeout)) is not None:
                self.arrived.append(first)
                if most > 1:
                    # A partition may be taken away in here as well: `_let_go` then takes `first` out again.
                    more = self.client.consume(most - 1, 0)
            self._polled_at = time.monotonic()
            if self._callback_error is not None:
                # What was fetched stays for the next call when this one raises.
                self.arrived.extend(more)
                self.raise_callback_error()
            more[:0] = self.arrived
            self.arrived.clear()
        return more

    def _poll_client(self, timeout: float) -> Message | None:
        try:
            return self.client.poll(timeout)
        except SystemError as error:
            # confluent-kafka now and then loses the exception of a signal that arrives while it waits: it was Ctrl-C.
            raise KeyboardInterrupt from error

    def raise_callback_error(self) -> None:
        error, self._callback_error = self._callback_error, None
        if error is not None:
            raise error

    def _come_back(self) -> None:
        """The reader is here again: what was paused in its absence goes on, except what the user paused."""
        if self._standing_in:
            resumable = self._standing_in & self.assigned - self.paused
            self._standing_in = set()
            if resumable:
                self.client.resume([ClientPartition(*place) for place in resumable])

    def _keep(self) -> None:
        while not self._stopping.wait(TICK_S):
            # While the reader polls there is nothing to do here, so this takes only a turn that is free.
            if not self.lock.acquire(timeout=0):
                continue
            try:
                self._commit_when_due()
                if self._grouped and time.monotonic() - self._polled_at > BUSY_AFTER_S:
                    self._stand_in()
            except Exception:
                # This thread is what keeps the membership: it must outlive whatever one turn of it meets.
                log.exception("a turn of the consumer's background thread failed")
            finally:
                self.lock.release()

    def _stand_in(self) -> None:
        for _ in range(EVENTS_PER_TICK_MAX):
            running = self.assigned - self.paused - self._standing_in
            if running:
                self.client.pause([ClientPartition(*place) for place in running])
                self._standing_in |= running
            message = self.client.poll(0)
            if message is None:
                return
            self.arrived.append(message)

    def _commit_when_due(self) -> None:
        if self.commits_when_finished and time.monotonic() - self._committed_at >= self._commit_interval:
            self._committed_at = time.monotonic()
            self.commit_finished(wait=False, quietly=True)

    # Rebalances, inside a poll

    def _assign(self, client: Librdkafka, partitions: list[ClientPartition]) -> None:
        try:
            located = self._locate(partitions)
        except BeyondTheEnd as error:
            self._callback_error = self._callback_error or error
            located = error.positions
        except BaseException as error:
            self._callback_error = self._callback_error or error
            located = partitions
        if self._eager:
            client.assign(located)
        else:
            client.incremental_assign(located)
        self._note_assigned(located)

    def place(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin again at these offsets in partitions that we have."""
        located = [ClientPartition(*place, offset) for place, offset in positions.items() if place in self.assigned]
        with self.lock:
            if not located:
                return
            if self._eager:
                known = {**self.offsets.positions(), **positions}
                self.client.assign(
                    [
                        ClientPartition(*place, known[place]) if place in known else ClientPartition(*place)
                        for place in self.assigned
                    ]
                )
            else:
                self.client.incremental_unassign([ClientPartition(each.topic, each.partition) for each in located])
                self.client.incremental_assign(located)

    def _note_assigned(self, partitions: list[ClientPartition]) -> None:
        self.joined = True
        self.suspicious_since = None
        places = places_of(partitions)
        # A new list, not a change: the other thread may be going through the old one.
        self.assigned = self.assigned | places
        self.newly_assigned.append(places)
        self._tell(self._on_assigned, places)

    def _revoke(self, client: Librdkafka, partitions: list[ClientPartition]) -> None:
        places = places_of(partitions)
        if self.before_revoke is not None:
            self.before_revoke(places)
        self._commit_before_leaving(places)
        self._let_go(places)

    def _commit_before_leaving(self, places: Iterable[TopicPartition]) -> None:
        if self.commits_when_finished:
            self.commit_finished(places, wait=True, quietly=True)
        elif self.commits_handed_out:
            positions = {place: offset for place, offset in self.offsets.positions().items() if place in set(places)}
            if positions:
                self.commit(positions, wait=True, quietly=True)

    def _lose(self, client: Librdkafka, partitions: list[ClientPartition]) -> None:
        """The group went on without us: the partitions have new owners, and what we finished is theirs to do again."""
        self._let_go(places_of(partitions))

    def _let_go(self, places: frozenset[TopicPartition]) -> None:
        self.assigned = self.assigned - places
        self.paused -= places
        self._standing_in -= places
        self.offsets.forget(places)
        # What was fetched before this moment is not ours any more.  What comes after it, should the partition come back, is.
        kept = [message for message in self.arrived if (message.topic(), message.partition()) not in places]
        self.arrived.clear()
        self.arrived.extend(kept)
        self.taken_away.append(places)
        self._tell(self._on_revoked, places)

    def _tell(self, callback: PartitionsCallback | None, places: Iterable[TopicPartition]) -> None:
        if callback is None:
            return
        try:
            callback(sorted(places))
        except BaseException as error:
            # Out of a poll of the background thread it would be lost: the reader's next call raises it.
            self._callback_error = self._callback_error or error

    # Offsets

    def commit_finished(self, places: Iterable[TopicPartition] | None = None, *, wait: bool, quietly: bool = False) -> None:
        positions = {place: offset for place, offset in self.offsets.to_commit(places).items() if place in self.assigned}
        if positions and self._grouped:
            self.commit(positions, wait=wait, quietly=quietly)

    def commit(self, positions: Mapping[TopicPartition, int], *, wait: bool, quietly: bool = False) -> None:
        failure = self._send_commit(positions, wait) if self.spans is None else self._commit_traced(self.spans, positions, wait)
        if failure is None:
            if wait:
                self.offsets.committed(positions)
        elif not quietly:
            raise failure from None
        else:
            log.warning("%s; the records since the last commit will be read again", failure)

    def _send_commit(self, positions: Mapping[TopicPartition, int], wait: bool) -> Exception | None:
        """Why it failed, or None."""
        offsets = [ClientPartition(place.topic, place.partition, offset) for place, offset in positions.items()]
        try:
            with self.lock:
                answers = self.client.commit(offsets=offsets, asynchronous=not wait)
            for answer in answers or ():
                if answer.error is not None:
                    raise KafkaException(answer.error)
        except KafkaException as error:
            return translate(error.args[0], "commit offsets", self._bootstrap, self.last_error)
        return None

    def _commit_traced(self, spans: Spans, positions: Mapping[TopicPartition, int], wait: bool) -> Exception | None:
        span = spans.start_commit(positions)
        if not wait:
            spans.leave_commit(span, positions)
        failure = self._send_commit(positions, wait)
        if wait or failure is not None:
            spans.end(span, failure)
        return failure

    def _note_commit(self, error: KafkaError | None, offsets: list[ClientPartition]) -> None:
        if self.spans is not None:
            self.spans.commit_answered(offsets, error)
        if error is None:
            self.offsets.committed(
                {TopicPartition(each.topic, each.partition): each.offset for each in offsets if each.error is None}
            )
        elif error.name() != "_NO_OFFSET":
            log.warning("could not commit offsets: %s; it will be tried again", error.str())

    def committed(self, places: Iterable[TopicPartition], timeout: float) -> Positions:
        """What the group has committed; partitions without a commit are left out."""
        asked = [ClientPartition(*place) for place in places]
        if not asked:
            return {}
        try:
            with self.lock:
                answers = self.client.committed(asked, timeout=timeout)
        except KafkaException as error:
            raise translate(error.args[0], "ask for committed offsets", self._bootstrap, self.last_error) from None
        return {
            TopicPartition(each.topic, each.partition): each.offset
            for each in answers
            if each.offset > OFFSET_INVALID and each.offset >= 0
        }

    # The broker's health

    def check_broker(self, timeout: float) -> None:
        """BrokerTimeout when no broker has answered for `timeout`.  Silence alone is no proof, so ask before saying so."""
        since = self.suspicious_since
        if since is None or time.monotonic() - since < timeout:
            return
        try:
            with self.lock:
                self.client.list_topics(timeout=1.0)
        except KafkaException as error:
            said = self.last_error or error.args[0].str()
            raise BrokerTimeout(f"no answer from {self._bootstrap} for {timeout:g} s ({said})") from None
        self.suspicious_since = None

    def _note_error(self, error: KafkaError) -> None:
        self.last_error = error.str()
        if error.name() in ("_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE") and self.suspicious_since is None:
            self.suspicious_since = time.monotonic()
            log.info("%s does not answer (%s); still trying", self._bootstrap, self.last_error)


def places_of(partitions: Iterable[ClientPartition]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(each.topic, each.partition) for each in partitions)
