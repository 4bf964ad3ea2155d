"""A batch becomes what goes into the log now and what waits."""

from itertools import count
from uuid import UUID

import pytest

from headrace.broker.delaying.entries import DelayEntryCodec, key_hash_of, read_payload
from headrace.broker.delaying.splitting import IN_TRANSACTION, Split, split_steps
from headrace.coordination.delay.entries import Cancelled, Staged, Target
from headrace.log.cleaning.steps import finish
from headrace.log.validation import RecordsRefused
from headrace.model.errors import RequestError
from headrace.records.batch import build_batch, read_header
from headrace.records.record import Record, read_pairs, read_records

TARGET = Target(UUID(int=7), 3)
NOW = 1_000_000
LATER = (("headrace-delay-ms", b"500"),)
CANCEL = (("headrace-cancel", b""),)


def record(value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = (), key: bytes | None = b"k") -> Record:
    return Record(0, 5, key, value, headers)


def split(batch: bytes) -> Split | None:
    return finish(split_steps(batch, TARGET, NOW, count(1).__next__))


def waiting_in(batch: bytes) -> dict[int, Staged | Cancelled]:
    codec = DelayEntryCodec()
    found: dict[int, Staged | Cancelled] = {}
    for offset, key, value in read_pairs(batch):
        assert key is not None
        entry = codec.decode(key, value)
        assert isinstance(entry, Staged | Cancelled)
        found[offset] = entry
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd", "lz4", "snappy"])
def test_what_is_due_stays_and_what_is_not_waits_with_the_same_sequences(codec: str) -> None:
    records = [record(b"now"), record(b"later", LATER), record(b"also now")]
    parts = split(build_batch(records, producer_id=9, producer_epoch=2, base_sequence=40, compression=codec))

    assert parts is not None
    assert [(each.offset, each.value) for each in read_records(parts.now)] == [(0, b"now"), (2, b"also now")]
    now, later = read_header(parts.now), read_header(parts.later)
    assert (now.producer_id, now.producer_epoch, now.base_sequence, now.last_sequence) == (9, 2, 40, 42)
    assert (later.producer_epoch, later.base_sequence, later.last_sequence) == (2, 40, 42)
    assert now.compression == later.compression == codec
    (waiting,) = waiting_in(parts.later).values()
    assert isinstance(waiting, Staged)
    assert (waiting.due_ms, waiting.target, waiting.key_hash) == (NOW + 500, TARGET, key_hash_of(b"k"))
    payload = read_payload(waiting.payload)
    assert payload.record == Record(0, 5, b"k", b"later", (("headrace-deliver-at", b"1000500"),))


def test_where_all_wait_a_batch_without_records_holds_their_sequences() -> None:
    parts = split(build_batch([record(b"a", LATER), record(None, LATER, None)], producer_id=9, producer_epoch=0, base_sequence=0))

    assert parts is not None
    assert (read_header(parts.now).record_count, read_header(parts.now).last_sequence) == (0, 1)
    assert [each.key_hash is None for each in waiting_in(parts.later).values() if isinstance(each, Staged)] == [False, True]


def test_a_batch_without_delays_is_left_as_it_came() -> None:
    assert split(build_batch([record(b"a"), record(b"a text about headrace-delay-ms")])) is None


def test_a_record_that_is_due_already_is_set_aside_too() -> None:
    """Sent again a second later it must not be on the other side."""
    parts = split(build_batch([record(b"a", (("headrace-deliver-at", b"1"),))]))

    assert parts is not None
    assert [each.due_ms for each in waiting_in(parts.later).values() if isinstance(each, Staged)] == [1]


def test_a_producer_of_two_partitions_is_two_producers_where_both_wait() -> None:
    batch = build_batch([record(b"a", LATER)], producer_id=9, producer_epoch=0, base_sequence=0)
    one = finish(split_steps(batch, TARGET, NOW, count(1).__next__))
    other = finish(split_steps(batch, Target(UUID(int=7), 4), NOW, count(1).__next__))

    assert one is not None
    assert other is not None
    assert read_header(one.later).producer_id != read_header(other.later).producer_id


def test_a_cancellation_waits_for_nothing_and_never_enters_the_log() -> None:
    parts = split(build_batch([record(None, CANCEL)]))

    assert parts is not None
    assert read_header(parts.now).record_count == 0
    assert list(waiting_in(parts.later).values()) == [Cancelled(1, TARGET, key_hash_of(b"k"))]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (record(b"a", (("headrace-delay-ms", b"soon"),)), "record 1: its header headrace-delay-ms is 'soon'"),
        (record(b"a", CANCEL), "needs a key and no value"),
        (record(None, CANCEL, None), "needs a key and no value"),
    ],
)
def test_what_nobody_can_make_sense_of_is_refused_by_its_index(wrong: Record, why: str) -> None:
    with pytest.raises(RecordsRefused, match=why):
        split(build_batch([record(b"fine", LATER), wrong]))


def test_records_of_a_transaction_cannot_be_delayed() -> None:
    batch = build_batch([record(b"a", LATER)], producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)

    with pytest.raises(RequestError, match=IN_TRANSACTION):
        split(batch)
