"""Entries of `__transaction_state`: the bytes that Kafka 4.3.1's own TransactionLog class wrote for the same transactions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.coordinators.transactions.entries import TransactionEntryCodec
from headrace.coordination.transaction.state import Tombstone, TransactionEntry, TransactionState
from headrace.model.identity import TopicPartition
from headrace.wire.codec import WireError
from headrace.wire.entries import transaction as wire

CODEC = TransactionEntryCodec()

PREPARED = TransactionEntry(
    transactional_id="orders-1",
    producer_id=4001,
    previous_producer_id=4001,
    next_producer_id=5001,
    producer_epoch=7,
    timeout_ms=60_000,
    state=TransactionState.PREPARE_COMMIT,
    partitions=frozenset({TopicPartition("bills", 3)}),
    start_ms=1_700_000_000_123,
    last_update_ms=1_700_000_000_456,
    client_version=2,
)
EMPTY = TransactionEntry(
    transactional_id="orders-1", producer_id=4001, producer_epoch=0, timeout_ms=60_000, last_update_ms=1_700_000_000_456
)
COMPLETE = TransactionEntry(
    transactional_id="orders-1",
    producer_id=4001,
    producer_epoch=0,
    timeout_ms=60_000,
    state=TransactionState.COMPLETE_ABORT,
    start_ms=1_700_000_000_123,
    last_update_ms=1_700_000_000_456,
)
KEY = "000000086f72646572732d31"
KAFKAS_BYTES = {
    PREPARED: "00010000000000000fa100070000ea6002020662696c6c730200000003000000018bcfe569c8"
    "0000018bcfe5687b0300080000000000000fa10108000000000000138902020002",
    EMPTY: "00010000000000000fa100000000ea6000000000018bcfe569c8ffffffffffffffff00",
    COMPLETE: "00010000000000000fa100000000ea6005010000018bcfe569c80000018bcfe5687b00",
}
KAFKAS_OLDER_BYTES = "00000000000000000fa100070000ea600200000001000562696c6c7300000001000000030000018bcfe569c80000018bcfe5687b"


@pytest.mark.parametrize("transaction", KAFKAS_BYTES, ids=lambda each: each.state.label)
def test_a_transaction_is_written_and_read_as_kafka_does(transaction: TransactionEntry) -> None:
    key, value = CODEC.encode(transaction)

    assert key.hex() == KEY
    assert value is not None
    assert value.hex() == KAFKAS_BYTES[transaction]
    assert CODEC.decode(key, value) == transaction


def test_an_entry_of_the_older_version_is_read() -> None:
    read = CODEC.decode(bytes.fromhex(KEY), bytes.fromhex(KAFKAS_OLDER_BYTES))

    assert isinstance(read, TransactionEntry)
    assert (read.producer_id, read.producer_epoch, read.state) == (4001, 7, TransactionState.PREPARE_COMMIT)
    assert read.partitions == PREPARED.partitions
    assert (read.previous_producer_id, read.next_producer_id, read.client_version) == (-1, -1, 0)


def test_a_tombstone_takes_the_transactional_id_away() -> None:
    key, value = CODEC.encode(Tombstone("orders-1"))

    assert value is None
    assert CODEC.decode(key, None) == Tombstone("orders-1")


def test_a_kind_of_key_that_is_not_known_is_passed_over() -> None:
    assert CODEC.decode(b"\x00\x09whatever", b"value") is None


def test_a_newer_version_of_a_transaction_stops_the_load_rather_than_being_overlooked() -> None:
    with pytest.raises(WireError):
        CODEC.decode(bytes.fromhex(KEY), b"\x00\x02" + bytes(40))


def test_tagged_fields_of_a_newer_kafka_are_skipped() -> None:
    value = bytes.fromhex(KAFKAS_BYTES[EMPTY])[:-1] + bytes([1, 9, 2, 0xAB, 0xCD])

    assert CODEC.decode(bytes.fromhex(KEY), value) == EMPTY


@pytest.mark.slow
@given(
    transaction=st.builds(
        TransactionEntry,
        transactional_id=st.text(min_size=1, max_size=20),
        producer_id=st.integers(0, 2**63 - 1),
        producer_epoch=st.integers(0, 2**15 - 1),
        timeout_ms=st.integers(1, 2**31 - 1),
        state=st.sampled_from([TransactionState.ONGOING, TransactionState.PREPARE_ABORT]),
        partitions=st.frozensets(st.builds(TopicPartition, st.text(min_size=1, max_size=9), st.integers(0, 2**31 - 1))),
        start_ms=st.integers(-1, 2**63 - 1),
        last_update_ms=st.integers(-1, 2**63 - 1),
        previous_producer_id=st.integers(-1, 2**63 - 1),
        next_producer_id=st.integers(-1, 2**63 - 1),
        client_version=st.integers(0, 2),
    )
)
def test_what_is_written_is_read_again(transaction: TransactionEntry) -> None:
    key, value = CODEC.encode(transaction)

    assert CODEC.decode(key, value) == transaction
    assert value is not None
    assert wire.encode_value(wire.read_value(value)) == value
