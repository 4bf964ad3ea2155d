"""Entries of the transaction coordinator as records of `__transaction_state`, and back."""

from collections import defaultdict
from collections.abc import Iterable

from headrace.coordination.transaction.state import Entry, Tombstone, TransactionEntry, TransactionState
from headrace.model.identity import TopicPartition
from headrace.wire.entries import transaction as wire


class TransactionEntryCodec:
    """Satisfies the runtime's EntryCodec."""

    def encode(self, entry: Entry) -> tuple[bytes, bytes | None]:
        key = wire.encode_key(entry.transactional_id)
        return key, None if isinstance(entry, Tombstone) else wire.encode_value(_value(entry))

    def decode(self, key: bytes, value: bytes | None) -> Entry | None:
        transactional_id = wire.read_key(key)
        if transactional_id is None:
            return None
        if value is None:
            return Tombstone(transactional_id)
        return _transaction(transactional_id, wire.read_value(value))


def _value(transaction: TransactionEntry) -> wire.TransactionLogValue:
    return wire.TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        # Kafka writes no list at all, rather than an empty one, before the first partition.
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> tuple[wire.PartitionsSchema, ...]:
    topics: dict[str, list[int]] = defaultdict(list)
    for partition in sorted(partitions):
        topics[partition.topic].append(partition.partition)
    return tuple(wire.PartitionsSchema(topic=topic, partition_ids=tuple(ids)) for topic, ids in topics.items())


def _transaction(transactional_id: str, value: wire.TransactionLogValue) -> TransactionEntry:
    partitions = frozenset(
        TopicPartition(topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
    )
    return TransactionEntry(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=partitions,
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )
