"""The transaction coordinator of one partition of `__transaction_state`.

Every request ends in a decision: at most one entry, and a reply that goes out when the entry is committed.  State changes only
in `replay`.  What a restart may forget (markers on their way, deadlines) lives beside it and is made again from the entries.
"""

import builtins
from collections.abc import Iterator, Mapping

from headrace.coordination.decision import Answer, Decision, Reply, Token
from headrace.coordination.moment import Moment
from headrace.coordination.transaction.describing import described, listed
from headrace.coordination.transaction.ending import ended
from headrace.coordination.transaction.initializing import aborted_by_coordinator, initialized
from headrace.coordination.transaction.markers import Marker, MarkerBook
from headrace.coordination.transaction.producer_ids import ProducerIds
from headrace.coordination.transaction.requests import (
    Added,
    AddPartitions,
    Description,
    EndTransaction,
    Identified,
    InitProducerId,
    Listed,
    ListFilter,
    TransactionSettings,
    VerifyPartitions,
)
from headrace.coordination.transaction.state import EPOCH_BUMP_VERSION, Entry, Tombstone, TransactionEntry, TransactionState
from headrace.coordination.transaction.timeouts import Deadlines, deadline_ms
from headrace.coordination.transaction.transitions import completed, with_partitions
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import ProducerIdentity, TopicPartition

TICK_ENTRIES_MAX = 500  # written by one tick, so that a mass expiry does not hold up the event loop
TICK_RETRY_MS = 1000  # after a tick whose entries could not be written


class TransactionShard:
    """All transactional ids whose hash falls on one partition."""

    def __init__(self, settings: TransactionSettings, producer_ids: ProducerIds) -> None:
        self.settings = settings
        self.markers = MarkerBook()
        self._producer_ids = producer_ids
        self._transactions: dict[str, TransactionEntry] = {}
        self._deadlines = Deadlines()
        self._now = Moment(0, 0.0)
        # None while the log is replayed.
        self._serving_since_ms: int | None = None
        self._tick_not_before_ms = 0

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> Iterator[TransactionEntry]:
        return iter(self._transactions.values())

    def get(self, transactional_id: str) -> TransactionEntry | None:
        """What is known of one transactional id."""
        return self._transactions.get(transactional_id)

    # --- requests ---------------------------------------------------------------------------------------------------------

    def init_producer_id(self, request: InitProducerId, token: Token, now: Moment) -> Decision[Identified]:
        """Give the producer its id and a new epoch; an open transaction of its predecessor is aborted first."""
        self._now = now
        found = self._transactions.get(request.transactional_id)
        try:
            entry = initialized(found, request, self.settings, self._producer_ids.take, now.wall_ms)
        except RequestError as error:
            return _answer(token, Identified(error.code))
        if entry.prepared:
            # The producer asks again until the abort is complete.  The epoch of the abort is nobody's.
            return _answer(token, Identified(ErrorCode.CONCURRENT_TRANSACTIONS), entry)
        return _answer(token, Identified(ErrorCode.NONE, entry.producer_id, entry.producer_epoch), entry)

    def add_partitions(self, request: AddPartitions, token: Token, now: Moment) -> Decision[Added]:
        """Begin the transaction or let it grow."""
        self._now = now
        try:
            found = self._owned(request.transactional_id, request.producer, prepared_first=True)
        except RequestError as error:
            return _answer(token, Added(error.code))
        if found.state is TransactionState.ONGOING and found.partitions >= request.partitions:
            return _answer(token, Added())
        return _answer(token, Added(), with_partitions(found, request.partitions, request.client_version, now.wall_ms))

    def verify_partitions(self, request: VerifyPartitions) -> dict[TopicPartition, ErrorCode]:
        """Say of each partition whether the producer's open transaction includes it."""
        try:
            found = self._owned(request.transactional_id, request.producer, prepared_first=False)
        except RequestError as error:
            return dict.fromkeys(request.partitions, error.code)
        return {
            partition: ErrorCode.NONE if partition in found.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in request.partitions
        }

    def end(self, request: EndTransaction, token: Token, now: Moment) -> Decision[Identified]:
        """Decide the outcome.  The reply does not wait for the markers: the decision alone makes it final."""
        self._now = now
        bumps = request.client_version >= EPOCH_BUMP_VERSION
        try:
            found = self._found(request.transactional_id)
            entry = ended(found, request, self._producer_ids.take, now.wall_ms)
        except RequestError as error:
            return _answer(token, Identified(error.code))
        if not bumps:
            return _answer(token, Identified(), entry)
        # The identity that the producer will have when the markers are written; it may use it from now on.
        later = found if entry is None else completed(entry, now.wall_ms)
        return _answer(token, Identified(ErrorCode.NONE, later.producer_id, later.producer_epoch), entry)

    def describe(self, transactional_id: str) -> Description:
        """DescribeTransactions for one transactional id."""
        return described(transactional_id, self._transactions.get(transactional_id))

    def list(self, filtered: ListFilter, now: Moment) -> builtins.list[Listed]:
        """ListTransactions; raises RequestError when the pattern is none."""
        return [*listed(self._transactions.values(), filtered, now.wall_ms)]

    def _found(self, transactional_id: str) -> TransactionEntry:
        if not transactional_id:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        found = self._transactions.get(transactional_id)
        if found is None:
            raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found

    def _owned(self, transactional_id: str, producer: ProducerIdentity, *, prepared_first: bool) -> TransactionEntry:
        found = self._found(transactional_id)
        if prepared_first and found.prepared:
            # Before any check of identity: the producer may already use the next producer id, which is not in place yet.
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if found.producer_id != producer.producer_id:
            raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if found.producer_epoch != producer.epoch:
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        if found.prepared:
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return found

    # --- markers ----------------------------------------------------------------------------------------------------------

    def take_markers(self, now: Moment, committed_to: int) -> tuple[Marker, ...]:
        """Markers to send, of decisions that are committed: those whose entry lies below `committed_to`."""
        return self.markers.take_due(now.wall_ms, committed_to)

    def note_markers(self, marker: Marker, results: Mapping[TopicPartition, ErrorCode], now: Moment) -> Decision[None]:
        """The partition leaders have answered.  With the last marker the transaction is complete."""
        self._now = now
        done = self.markers.note(marker, results, now.wall_ms)
        return Decision() if done is None else Decision((completed(done, now.wall_ms),))

    # --- time -------------------------------------------------------------------------------------------------------------

    def on_loaded(self, now: Moment) -> Decision[None]:
        """The log is replayed.  Markers of decisions found in it are due at once."""
        self._now = now
        self._serving_since_ms = now.wall_ms
        for transaction in self._transactions.values():
            self._set_deadline(transaction)
        return Decision()

    def _set_deadline(self, transaction: TransactionEntry) -> None:
        deadline = deadline_ms(transaction, self.settings, self._serving_since_ms, self._now.wall_ms)
        self._deadlines.put(transaction.transactional_id, deadline)

    def next_deadline(self) -> float | None:
        """Deadlines are wall times, as entries carry them; the latest reading of both clocks translates."""
        deadline = self._deadlines.next()
        if deadline is None:
            return None
        return self._now.after_ms(max(deadline, self._tick_not_before_ms) - self._now.wall_ms)

    def tick(self, now: Moment) -> Decision[None]:
        """Abort what is past its time-out; forget transactional ids that nobody uses."""
        self._now = now
        if now.wall_ms < self._tick_not_before_ms:
            return Decision()
        entries = tuple(self._overdue(now.wall_ms))
        if entries:
            self._tick_not_before_ms = now.wall_ms + TICK_RETRY_MS  # until the entries are replayed
        return Decision(entries)

    def _overdue(self, now_ms: int) -> Iterator[Entry]:
        for transactional_id in self._deadlines.due(now_ms, TICK_ENTRIES_MAX):
            transaction = self._transactions[transactional_id]
            if transaction.state is TransactionState.ONGOING:
                try:
                    yield aborted_by_coordinator(transaction, self.settings, self._producer_ids.take, now_ms)
                except RequestError:
                    continue  # no producer id at hand; it stays due
            else:
                transaction.moved_to(TransactionState.DEAD)
                yield Tombstone(transactional_id)

    # --- replay -----------------------------------------------------------------------------------------------------------

    def replay(self, entry: Entry, offset: int, producer: ProducerIdentity | None = None) -> None:
        """The only place where a transaction changes."""
        self._tick_not_before_ms = 0
        if isinstance(entry, Tombstone):
            self._transactions.pop(entry.transactional_id, None)
            self._deadlines.put(entry.transactional_id, None)
            self.markers.forget(entry.transactional_id)
            return
        self._transactions[entry.transactional_id] = entry
        if self._serving_since_ms is not None:
            self._set_deadline(entry)
        self.markers.follow(entry, offset)

    def replay_marker(self, producer: ProducerIdentity, committed: bool) -> None:
        """Nothing in this topic is transactional: a marker here is not ours to understand."""


def _answer(token: Token, message: Answer, entry: Entry | None = None) -> Decision[Answer]:
    return Decision(() if entry is None else (entry,), (Reply(token, message),))
