"""From librdkafka's messages to records: fetching, decoding, moving.

Always: what is handed out of a partition is in order and without gaps; records of a partition that was taken away, or moved
by a seek, are dropped before the next is handed out; a record whose time to live has run out is passed over.  One thread
reads at a time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from headrace.client.consumer.membership import Membership
from headrace.client.consumer.offsets import Positions
from headrace.client.consumer.starting_point import StartingPoint
from headrace.client.consumer.wanted import Wanted
from headrace.client.contact import FirstContact
from headrace.client.errors import (
    GROUP_REFUSED,
    NO_TOPIC,
    BrokerTimeout,
    DecodeFailed,
    HeadraceError,
    passes,
    translate,
)
from headrace.client.push.handlers import refuse_unrun
from headrace.client.records.record import (
    Record,
    Records,
    decoded,
    expired,
    joined,
    message_of,
    place_of,
    record_of,
    unexpired,
)
from headrace.client.records.serialization import BYTES, Codec, decoded_many
from headrace.client.security.connecting import Way
from headrace.model.errors import RETRIABLE
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.deadletter.deadletter import DeadLetters

CHUNK = 500  # records fetched from librdkafka at once
SLICE_S = 0.1  # how long Ctrl-C and close() wait at most for a poll to end
JOIN_PATIENCE_S = 10.0
STUCK_PATIENCE_S = 0.5
OffsetSource = Callable[[frozenset[TopicPartition]], Positions]


class Reader:
    def __init__(
        self,
        membership: Membership,
        starting_point: StartingPoint,
        wanted: Wanted,
        *,
        way: Way,
        group: str | None,
        keys: Codec,
        values: Codec,
        commits_first: bool,
        timeout: float,
        contact: FirstContact,
        on_undecodable: Callable[[DecodeFailed], object] | None,
        dead_letters: DeadLetters | None,
    ) -> None:
        self.membership = membership
        self.starting_point = starting_point
        self.ready: deque[Message] = deque()  # fetched, known to be records, not yet handed out
        self.at_end: set[TopicPartition] = set()  # partitions of which everything has been fetched
        self.ends_met: Positions = {}  # where they ended then; librdkafka says it once, however often one asks
        # A database that keeps the offsets beside its data says here where to read on (see exactly_once).
        self.offset_source: OffsetSource | None = None
        self.stopping = False
        self._wanted = wanted
        self._way, self._bootstrap = way, way.bootstrap
        self._group = group
        self._keys = keys
        self._values = values
        self._plain = keys is BYTES and values is BYTES
        self._commits_first = commits_first
        self._timeout = timeout
        self._contact = contact
        self._on_undecodable = on_undecodable
        self._dead_letters = dead_letters
        self._started = False
        self._held_back: Exception | None = None  # what the next fetch raises
        self._stuck_since: float | None = None

    def next(self, timeout: float | None) -> Record[Any, Any] | None:
        """The next record; None when none comes within `timeout`, or when reading is stopped."""
        record = self._take_one()
        if record is not None:
            return record
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.stopping:
            wait = SLICE_S if deadline is None else min(SLICE_S, deadline - time.monotonic())
            self.fill(max(wait, 0), CHUNK)
            record = self._take_one()
            if record is not None or wait <= 0:
                return record
        return None

    def _take_one(self) -> Record[Any, Any] | None:
        """The next record that is here, handed out."""
        self._drop_what_was_taken_away()
        while self.ready:
            # It stays in front until it is handed out: whatever is raised in between, it is not lost to the next call.
            message = self.ready[0]
            try:
                record = self._record(message)
            except DecodeFailed as failure:
                if not self._may_divert:
                    self.ready.popleft()
                    self._hand_out_one(message)
                    raise
                if not self._divert(failure):
                    return None
                record = None
            self.ready.popleft()
            self._hand_out_one(message)
            if record is not None:
                return record
        return None

    def _record(self, message: Message) -> Record[Any, Any] | None:
        """None when its time to live has run out."""
        if message.headers() is not None and expired(message):
            return None
        return record_of(message, message.value()) if self._plain else decoded(message, self._keys, self._values)

    def batch(self, size: int, timeout: float) -> Records[Any, Any]:
        deadline = time.monotonic() + timeout
        batch = self.take(size)
        while len(batch) < size and not self.stopping:
            wait = min(SLICE_S, deadline - time.monotonic())
            try:
                messages = self._fetch_records(max(wait, 0), size - len(batch))
                more = self._decode(messages)
            except BaseException as error:
                if not batch:
                    raise
                self._after(batch, error)
                break
            batch = joined(batch, more)
            if wait <= 0 and not more:
                break
        return batch

    def _after(self, batch: Records[Any, Any], error: BaseException) -> None:
        """Something was raised behind records that are fine: they come first, and it comes out of the next call.  Ctrl-C waits
        for nothing: then they are there for who reads on."""
        if isinstance(error, DecodeFailed):
            self._put_back([message_of(error.record)])
        elif isinstance(error, Exception):
            # Of an `on_undecodable`: its record is in front, and is tried again.
            self._held_back = None if self.ready else error
        else:
            self._put_back([message_of(record) for record in batch])
            raise error

    def _put_back(self, messages: list[Message]) -> None:
        """These are not handed out after all."""
        self.ready.extendleft(reversed(messages))
        for message in reversed(messages):
            place = place_of(message)
            if place in self.membership.assigned:
                self.membership.offsets.hand_out_one(place, message.offset() or 0)

    def _fetch_records(self, wait: float, most: int) -> list[Message]:
        """`fill` and `take_messages` in one: most of what is fetched is records that wait for nothing."""
        messages = self._fetch(wait, most)
        if self._commits_first or self.ready or any(map(Message.error, messages)):
            self._sort(messages)
            messages = self.take_messages(most)
        return messages

    def take(self, count: int) -> Records[Any, Any]:
        """Up to `count` records that are here, handed out."""
        return self._decode(self.take_messages(count))

    def _hand_out_one(self, message: Message) -> None:
        place = place_of(message)
        if place in self.membership.assigned:
            self.membership.offsets.hand_out_one(place, (message.offset() or 0) + 1)

    def _hand_out(self, messages: list[Message]) -> None:
        # A partition may go while its records are on their way out: then their offsets are not ours to commit.
        assigned = self.membership.assigned
        self.membership.offsets.hand_out({place: offset for place, offset in self._ends(messages).items() if place in assigned})

    def take_messages(self, count: int) -> list[Message]:
        self._drop_what_was_taken_away()
        ready = self.ready
        if count < len(ready):
            return [ready.popleft() for _ in range(count)]
        messages = list(ready)
        ready.clear()
        return messages

    def decode_one(self, message: Message) -> Record[Any, Any] | DecodeFailed | None:
        """A record, or why it is none; None when there is nothing more to do about it."""
        if message.headers() is not None and expired(message):
            return None
        try:
            return decoded(message, self._keys, self._values)
        except DecodeFailed as failure:
            if self._on_undecodable is None:
                return failure
            refuse_unrun("on_undecodable", self._on_undecodable(failure))
            return None

    def _decode(self, messages: list[Message]) -> Records[Any, Any]:
        """Records of these messages, handed out."""
        good = unexpired(messages)
        try:
            values = decoded_many(self._values, map(Message.value, good))
            keys = decoded_many(self._keys, map(Message.key, good))
        except Exception:
            return self._decode_one_by_one(messages)
        except BaseException:
            self.ready.extendleft(reversed(messages))  # Ctrl-C: they are there for who reads on
            raise
        self._hand_out(messages)
        return Records(good, values, keys)

    def _decode_one_by_one(self, messages: list[Message]) -> Records[Any, Any]:
        """The same where one of them is not what was expected, and it shows which.  What comes behind that one stays for the next
        call, and so does it unless it is what this call tells of."""
        records: list[Record[Any, Any]] = []
        taken = 0
        try:
            for message in messages:
                try:
                    record = self._record(message)
                except DecodeFailed as failure:
                    if not self._may_divert:
                        taken += 0 if records else 1
                        raise
                    if not self._divert(failure):
                        break
                    record = None
                taken += 1
                if record is not None:
                    records.append(record)
        except Exception:
            if not records:
                raise
            # The good ones before it first: what was raised now is raised again by the next call.
        except BaseException:
            taken = 0  # Ctrl-C: nobody gets any of them from this call
            raise
        finally:
            self.ready.extendleft(reversed(messages[taken:]))
            self._hand_out(messages[:taken])
        return self._gathered(records)

    def _gathered(self, records: list[Record[Any, Any]]) -> Records[Any, Any]:
        values = None if self._values is BYTES else [record.value for record in records]
        keys = None if self._keys is BYTES else [record.key for record in records]
        return Records([message_of(record) for record in records], values, keys)

    @property
    def _may_divert(self) -> bool:
        return self._on_undecodable is not None or self._dead_letters is not None

    def _divert(self, failure: DecodeFailed) -> bool:
        """A record that is not what was expected goes where the user said such records go.  False when reading was stopped before
        it was there."""
        if self._on_undecodable is not None:
            refuse_unrun("on_undecodable", self._on_undecodable(failure))
            return True
        assert self._dead_letters is not None
        from headrace.client.deadletter.deadletter import parking_of

        return parking_of(self._dead_letters).park_undecodable(
            failure, way=self._way, group=self._group, give_up=lambda: self.stopping
        )

    def _ends(self, messages: list[Message]) -> Positions:
        """The position after these messages in each of their partitions: the last of each decides."""
        if messages and len(self.membership.assigned) == 1:
            return {place_of(messages[-1]): (messages[-1].offset() or 0) + 1}
        places = zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)
        last = dict(zip(places, map(Message.offset, messages), strict=True))  # no Python runs for a single message
        return {TopicPartition(topic or "", partition or 0): (offset or 0) + 1 for (topic, partition), offset in last.items()}

    def fill(self, wait: float, most: int, *, on_top: bool = False) -> None:
        """Fetch, unless there is something already (or more is wanted `on_top`), and sort out what is not a record.  Hands
        nothing out."""
        if on_top or not self.ready:
            self._sort(self._fetch(wait, most))

    def _fetch(self, wait: float, most: int) -> list[Message]:
        """What librdkafka has: records, and errors among them."""
        error, self._held_back = self._held_back, None
        if error is not None:
            raise error
        if not self._started and not self._start(wait):
            return []
        self._take_positions_from_source()
        messages = self.membership.poll(wait, most)
        try:
            # First the old ones: these are newer than whatever was taken away.
            self._drop_what_was_taken_away()
            self._take_positions_from_source(messages)
        except BaseException:
            self.membership.arrived.extendleft(reversed(messages))  # for the next call
            raise
        if not messages:
            self.membership.check_broker(self._timeout)
            self._get_unstuck()
            self._wanted.check()
        return messages

    def _sort(self, messages: list[Message]) -> None:
        good = [message for message in messages if message.error() is None]
        self._accept(good)
        if len(good) != len(messages):
            for message in messages:
                if message.error() is not None:
                    self._meet(message)

    def _accept(self, messages: list[Message]) -> None:
        if self._commits_first and messages:
            try:
                self.membership.commit(self._ends(messages), wait=True)
            except HeadraceError:
                # Not committed, so not to be handed out: the next call tries again.
                self.membership.arrived.extendleft(reversed(messages))
                raise
        self.ready.extend(messages)

    def _meet(self, message: Message) -> None:
        error = message.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            self.at_end.add(place_of(message))
            self.ends_met[place_of(message)] = message.offset() or 0
            self.membership.suspicious_since = None
        elif self._group is None and error.name() == GROUP_REFUSED:
            return
        elif error.name() in NO_TOPIC:
            self._wanted.note_unknown()
        elif message.topic() is None and error.code() in RETRIABLE:
            self._stuck_since = self._stuck_since or time.monotonic()
        elif not passes(error):
            raise translate(error, f"read {self._wanted}", self._bootstrap)

    def _get_unstuck(self) -> None:
        """librdkafka says so and then does nothing more when a coordinator that has just moved refuses to tell committed offsets:
        the partitions that wait for them would wait for ever.  So ask again ourselves, and place them."""
        since = self._stuck_since
        if since is None or time.monotonic() - since < STUCK_PATIENCE_S:
            return
        waiting = self.membership.assigned - self.membership.offsets.positions().keys() - self.at_end
        committed = self.membership.committed(waiting, self._timeout)
        self.membership.place({**self.beginnings(waiting - committed.keys()), **committed})
        self._drop_all(waiting)
        self._stuck_since = None

    def _drop_what_was_taken_away(self) -> None:
        taken_away = self.membership.taken_away
        while taken_away:
            gone = taken_away.popleft()
            self.at_end -= gone
            self.ends_met = {place: end for place, end in self.ends_met.items() if place not in gone}
            self._drop_ready(gone)

    def _drop_ready(self, gone: frozenset[TopicPartition]) -> None:
        self.ready = deque(each for each in self.ready if (each.topic(), each.partition()) not in gone)

    def _drop_all(self, places: Iterable[TopicPartition]) -> None:
        """Everything fetched of these partitions: they are read on from elsewhere."""
        gone, membership = frozenset(places), self.membership
        self._drop_ready(gone)
        with membership.lock:
            kept = [each for each in membership.arrived if (each.topic(), each.partition()) not in gone]
            membership.arrived.clear()
            membership.arrived.extend(kept)

    def _take_positions_from_source(self, fetched: list[Message] | None = None) -> None:
        """Partitions that came to us are read from where the database says; what was `fetched` of them before does not count."""
        membership = self.membership
        while membership.newly_assigned:
            places = membership.newly_assigned[0] & membership.assigned
            if self.offset_source is not None and places:
                self._drop_what_was_taken_away()
                moved = self.offset_source(frozenset(places))
                self.move(moved)
                if fetched:
                    fetched[:] = [each for each in fetched if place_of(each) not in moved]
            membership.newly_assigned.popleft()  # not before: what the database could not say is asked again

    def move(self, positions: Mapping[TopicPartition, int], *, counts: bool = True) -> None:
        """Read on from here.  It `counts` as the position to commit, unless it only undoes what was fetched and not finished."""
        deadline = time.monotonic() + self._timeout
        for place, offset in positions.items():
            self._seek(ClientPartition(*place, offset), deadline)
            self.at_end.discard(place)
            self.ends_met.pop(place, None)
            if offset >= 0 and counts:
                self.membership.offsets.move(place, offset)
            elif counts:
                self.membership.offsets.reset([place])
        self._drop_all(positions)

    def beginnings(self, places: Iterable[TopicPartition]) -> Positions:
        """Where reading starts in partitions for which nothing is committed."""
        located = self.starting_point.ignoring_commits([ClientPartition(*place) for place in places])
        return {TopicPartition(each.topic, each.partition): each.offset for each in located}

    def _seek(self, position: ClientPartition, deadline: float) -> None:
        while True:
            try:
                with self.membership.lock:
                    self.membership.client.seek(position)
                return
            except KafkaException as error:
                # A partition just assigned is not yet being read, and cannot be moved until it is.
                if error.args[0].name() != "_STATE" or time.monotonic() >= deadline:
                    raise translate(error.args[0], f"seek in {position.topic}[{position.partition}]", self._bootstrap) from None
            time.sleep(0.01)

    def _start(self, wait: float) -> bool:
        """Begin to read.  False when there is nothing to read yet, after `wait`."""
        self._contact.require(lambda: self.stopping)
        if self.stopping:
            return False
        try:
            is_complete = self._wanted.is_there()
        except RuntimeError:
            if self.stopping:  # closed by another thread: librdkafka's client has gone
                return False
            raise
        if self._group is not None:
            self.membership.subscribe(self._wanted.topics)
            if not is_complete:
                self._wanted.note_unknown()
        elif is_complete:
            self.membership.assign(self.starting_point(self._wanted.located()))
        else:
            time.sleep(wait)
            return False
        self._started = True
        return True

    def wait_until_joined(self) -> None:
        """A group takes a while to form, and nobody means that by silence.  What comes meanwhile is there for the next call.

        Not for long: with the newer protocol a member for which no partition is left hears nothing at all."""
        deadline = time.monotonic() + min(self._timeout, JOIN_PATIENCE_S)
        while not (self.membership.joined or self.stopping) and time.monotonic() < deadline:
            self.fill(SLICE_S, CHUNK)

    def wait_for_assignment(self) -> None:
        deadline = time.monotonic() + self._timeout
        while not self.membership.assigned:
            self.fill(SLICE_S, 1)
            if time.monotonic() >= deadline:
                raise BrokerTimeout(
                    f"no partitions were assigned within {self._timeout:g} s by "
                    f"{self._bootstrap} to a member of group '{self._group}'"
                )
        self._take_positions_from_source()
