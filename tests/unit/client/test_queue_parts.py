"""What is said of jobs, as ranges; and how many are fetched ahead."""

from typing import Any, cast
from unittest.mock import Mock

import pytest
from confluent_kafka import Message

from headrace.client.queue.job import Stage, job_of
from headrace.client.queue.link import _records
from headrace.client.queue.pace import AHEAD_MAX, Pace
from headrace.client.queue.words import Said, Word, by_partition
from headrace.records.batch import build_batch
from headrace.records.header import LOW_ATTRIBUTES_POSITION, stamp
from headrace.records.record import Record
from headrace.wire.codec import decode, encode
from headrace.wire.messages.fetch import LeaderIdAndEpoch
from headrace.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from headrace.wire.messages.share_fetch import AcquiredRecords, PartitionData, Reason
from tests.unit.broker.handlers.replicas_in_memory import TOPIC_ID


def ranges(*said: Said) -> dict[int, list[tuple[int, int, tuple[int, ...]]]]:
    return {
        partition: [(each.first_offset, each.last_offset, each.acknowledge_types) for each in words.batches]
        for partition, words in by_partition(said).items()
    }


def test_neighbours_of_which_the_same_is_said_are_one_range() -> None:
    said = [Said(0, offset, Word.ACCEPT) for offset in (3, 1, 2, 7)] + [Said(0, 4, Word.RELEASE), Said(1, 5, Word.ACCEPT)]

    assert ranges(*said) == {0: [(1, 3, (1,)), (4, 4, (2,)), (7, 7, (1,))], 1: [(5, 5, (1,))]}


def test_what_is_done_is_not_renewed_any_more() -> None:
    assert ranges(Said(0, 1, Word.ACCEPT), Said(0, 1, Word.RENEW)) == {0: [(1, 1, (1,))]}
    assert ranges(Said(0, 1, Word.RENEW), Said(0, 1, Word.REJECT)) == {0: [(1, 1, (3,))]}


def test_a_reason_travels_beside_the_word_and_only_where_there_is_one() -> None:
    words = by_partition([Said(0, 1, Word.REJECT, "it is broken"), Said(0, 2, Word.REJECT)])[0]
    assert words.reasons == (Reason(offset=1, text="it is broken"),)

    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=words.batches, reasons=words.reasons)
    request = ShareAcknowledgeRequest(
        group_id="g", member_id="m", share_session_epoch=1, topics=(AcknowledgeTopic(topic_id=TOPIC_ID, partitions=(partition,)),)
    )
    assert decode(ShareAcknowledgeRequest, encode(request, 2), 2, 0) == request


def test_slow_jobs_are_not_fetched_ahead_and_quick_ones_are() -> None:
    slow, quick = Pace(), Pace()
    for _ in range(2000):
        slow.finished(1, 2.0)
        quick.finished(1, 0.000_01)

    assert slow.ahead(workers=1) == 0
    assert quick.ahead(workers=1) == AHEAD_MAX


def test_what_is_fetched_ahead_grows_with_what_is_known_and_falls_with_one_slow_job() -> None:
    pace = Pace()
    assert pace.ahead(8) == 0

    pace.finished(1, 0.001)
    assert pace.ahead(8) == 1
    for _ in range(99):
        pace.finished(1, 0.001)
    assert pace.ahead(8) == 100
    pace.finished(1, 10.0)
    assert pace.ahead(8) == 0


def test_who_says_how_many_gets_so_many() -> None:
    assert Pace(fixed=7).ahead(100) == 7


def test_records_that_cannot_be_unpacked_come_with_the_reason() -> None:
    """What nobody can read is rejected by whoever gets it; the session goes on."""
    damaged = bytearray(build_batch([Record(0, 0, None, b"two")]))
    stamp(damaged, 1, 0)
    damaged[LOW_ATTRIBUTES_POSITION] |= 1  # gzip, which its records are not
    partition = PartitionData(
        partition_index=0,
        error_code=0,
        acknowledge_error_code=0,
        current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        records=build_batch([Record(0, 0, None, b"one")]) + bytes(damaged),
        acquired_records=(AcquiredRecords(first_offset=0, last_offset=1, delivery_count=1),),
    )

    one, two = _records(partition)

    assert (one.message.value(), one.unreadable, two.message.offset()) == (b"one", "", 1)
    assert two.unreadable.startswith("the batch cannot be read: gzip data is broken")


def test_a_job_that_fails_is_named_in_the_log_without_what_is_in_it(caplog: pytest.LogCaptureFixture) -> None:
    message = Message(topic="mails", partition=2, offset=5, value=b"private")
    job = job_of(message, None, b"private", 1, cast(Any, Mock()), 0.0)
    job._stage = Stage.WORKING

    with job:
        raise ValueError("no such address")

    assert caplog.messages == ["job mails[2]@5 failed in attempt 1 and is released: ValueError: no such address"]
