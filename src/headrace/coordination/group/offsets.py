"""Committed offsets: kept by group and partition, and those inside open transactions kept apart until their marker arrives.

What always holds: an offset changes only by an entry of the log or a marker; of a commit and a transaction's commit the one that
stands later in the log wins, whichever was decided first.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from headrace.coordination.group.classic.state import ClassicGroup, ClassicState
from headrace.coordination.group.consumer.members import ConsumerGroup, ConsumerMember
from headrace.coordination.group.entries import CommittedOffset, OffsetEntry
from headrace.coordination.group.requests import (
    Commit,
    FetchedOffset,
    FetchOffsets,
    OffsetToCommit,
    PartitionErrors,
    TransactionalCommit,
)
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.topics import TopicCatalog
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID, ProducerIdentity, TopicPartition
from headrace.model.settings import LONG_MAX


class Stored(NamedTuple):
    """A committed offset and where in the coordinator's log it stands."""

    value: CommittedOffset
    position: int


class OffsetStore:
    """The committed offsets of all groups of a shard."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, Stored]] = {}
        self._pending: dict[int, dict[tuple[str, TopicPartition], Stored]] = {}
        self._open: dict[str, dict[TopicPartition, set[int]]] = {}

    def of_group(self, group_id: str) -> dict[TopicPartition, Stored]:
        return self._committed.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        stored = self._committed.get(group_id, {}).get(TopicPartition(topic, partition))
        return None if stored is None else stored.value

    def count(self) -> int:
        return sum(map(len, self._committed.values()))

    def group_ids(self) -> set[str]:
        return self._committed.keys() | self._open.keys()

    def is_open(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether a transaction that is not decided yet has committed an offset here."""
        return partition in self._open.get(group_id, {})

    def has_open(self, group_id: str) -> bool:
        return group_id in self._open

    def tombstones(self, group_id: str) -> Iterator[OffsetEntry]:
        """What the log says when all offsets of a group are gone."""
        for topic, partition in self._committed.get(group_id, {}).keys() | self._open.get(group_id, {}).keys():
            yield OffsetEntry(group_id, topic, partition, None)

    def tombstones_of_topics(self, topics: Mapping[str, UUID]) -> Iterator[OffsetEntry]:
        """What the log says when topics have been deleted.  A topic made anew under the same name has another id."""
        stored = [(group, partition, each) for group, offsets in self._committed.items() for partition, each in offsets.items()]
        stored += [(group, partition, each) for pending in self._pending.values() for (group, partition), each in pending.items()]
        for group_id, (topic, partition), each in stored:
            if topic in topics and each.value.topic_id in (NO_TOPIC_ID, topics[topic]):
                yield OffsetEntry(group_id, topic, partition, None)

    # --- replaying --------------------------------------------------------------------------------------------------------

    def replay(self, entry: OffsetEntry, position: int, producer: ProducerIdentity | None) -> None:
        group_id, topic, index, value = entry
        partition = TopicPartition(topic, index)
        if value is None:
            self._remove(group_id, partition)
        elif producer is None:
            offsets = self._committed.get(group_id)
            if offsets is None:
                offsets = self._committed[group_id] = {}
            offsets[partition] = Stored(value, position)
        else:
            pending = self._pending.setdefault(producer.producer_id, {})
            pending[group_id, partition] = Stored(value, position)
            self._open.setdefault(group_id, {}).setdefault(partition, set()).add(producer.producer_id)

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        for (group_id, partition), stored in self._pending.pop(producer_id, {}).items():
            self._close(group_id, partition, producer_id)
            offsets = self._committed.setdefault(group_id, {})
            if committed and (partition not in offsets or stored.position > offsets[partition].position):
                offsets[partition] = stored
            if not offsets:
                del self._committed[group_id]

    def _remove(self, group_id: str, partition: TopicPartition) -> None:
        offsets = self._committed.get(group_id, {})
        offsets.pop(partition, None)
        if not offsets:
            self._committed.pop(group_id, None)
        for producer_id in list(self._open.get(group_id, {}).get(partition, ())):
            self._pending.get(producer_id, {}).pop((group_id, partition), None)
            self._close(group_id, partition, producer_id)

    def _close(self, group_id: str, partition: TopicPartition, producer_id: int) -> None:
        by_partition = self._open.get(group_id, {})
        producers = by_partition.get(partition, set())
        producers.discard(producer_id)
        if not producers:
            by_partition.pop(partition, None)
        if not by_partition:
            self._open.pop(group_id, None)


# --- committing -------------------------------------------------------------------------------------------------------------


def accept(
    request: Commit | TransactionalCommit, settings: GroupSettings, now: Moment
) -> tuple[PartitionErrors, list[OffsetEntry]]:
    """The entries of a commit that its group has allowed, and what to tell about each partition."""
    errors: list[ErrorCode] = []
    entries: list[OffsetEntry] = []
    retention_ms = request.retention_ms if isinstance(request, Commit) else -1
    # A client may ask for longer than time can be written down.
    expire_ms = -1 if retention_ms < 0 else min(now.wall_ms + retention_ms, LONG_MAX)
    for each in request.offsets:
        asked = each.value
        if len(asked.metadata) > settings.offset_metadata_max_bytes:
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        value = CommittedOffset(asked.offset, asked.leader_epoch, asked.metadata, now.wall_ms, expire_ms, asked.topic_id)
        entries.append(OffsetEntry(request.group_id, each.topic, each.partition, value))
        errors.append(ErrorCode.NONE)
    return tuple(errors), entries


def check_classic_commit(group: ClassicGroup, request: Commit | TransactionalCommit) -> None:
    """Raise unless whoever commits may do so now."""
    is_transactional = isinstance(request, TransactionalCommit)
    if request.generation < 0 and group.state is ClassicState.EMPTY:
        # A consumer that assigns itself, or an operator.
        return
    if request.generation >= 0 or request.member_id or request.instance_id is not None:
        group.checked_member(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise RequestError(ErrorCode.ILLEGAL_GENERATION)
    elif not is_transactional:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
    if not is_transactional and group.state is ClassicState.COMPLETING:
        # The member knows the new generation but not yet what is its own in it.
        raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)


def check_consumer_commit(group: ConsumerGroup, request: Commit | TransactionalCommit, topics: TopicCatalog) -> None:
    """Raise unless whoever commits is a member whose epoch covers what it commits."""
    if request.generation < 0 and group.is_empty:
        return
    is_transactional = isinstance(request, TransactionalCommit)
    names_member = bool(request.member_id) or request.instance_id is not None or request.generation >= 0
    if is_transactional and not names_member:
        return
    member = group.member(request.member_id)
    if isinstance(request, Commit) and member.classic is None and not request.knows_consumer_protocol:
        message = "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION, message)
    if request.generation == member.epoch:
        return
    stale = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None and not is_transactional else ErrorCode.ILLEGAL_GENERATION
    if request.generation > member.epoch:
        raise RequestError(stale, f"Epoch {request.generation} is newer than the member's, {member.epoch}.")
    for each in request.offsets:
        if request.generation < _assigned_at(member, each, topics):
            raise RequestError(stale, f"Epoch {request.generation} is too old to commit {each.topic}-{each.partition}.")


NEVER = 2**31


def _assigned_at(member: ConsumerMember, each: OffsetToCommit, topics: TopicCatalog) -> int:
    """The epoch at which the member got the partition: an older self of it may not commit there."""
    topic_id = each.value.topic_id
    if topic_id == NO_TOPIC_ID:
        topic = topics.named(each.topic)
        topic_id = topic.topic_id if topic is not None else NO_TOPIC_ID
    for held in (member.assigned, member.revoking):
        epoch = held.get(topic_id, {}).get(each.partition)
        if epoch is not None:
            return epoch
    return NEVER


# --- fetching ---------------------------------------------------------------------------------------------------------------


def check_consumer_fetch(group: ConsumerGroup, request: FetchOffsets) -> None:
    """Raise when a member asks under an epoch that is not its own."""
    if request.member_id is None and request.member_epoch < 0:
        return
    member = group.member(request.member_id or "")
    if request.member_epoch != member.epoch:
        code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        raise RequestError(code, f"The received epoch {request.member_epoch} does not match the member's, {member.epoch}.")


def fetch(store: OffsetStore, request: FetchOffsets) -> tuple[FetchedOffset, ...]:
    """The offsets asked for, in the order asked; all of them, sorted, when none is named."""
    if request.partitions is None:
        wanted = [(topic, partition, NO_TOPIC_ID) for topic, partition in sorted(store.of_group(request.group_id))]
    else:
        wanted = [(query.topic, query.partition, query.topic_id) for query in request.partitions]
    return tuple(_fetched(store, request, *each) for each in wanted)


def _fetched(store: OffsetStore, request: FetchOffsets, topic: str, partition: int, topic_id: UUID) -> FetchedOffset:
    if request.require_stable and store.is_open(request.group_id, TopicPartition(topic, partition)):
        return FetchedOffset(topic, partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    value = store.get(request.group_id, topic, partition)
    if value is not None and NO_TOPIC_ID not in (value.topic_id, topic_id) and value.topic_id != topic_id:
        # Committed for a topic of the same name that has been deleted since.
        value = None
    return FetchedOffset(topic, partition, value)
