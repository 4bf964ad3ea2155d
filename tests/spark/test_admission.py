"""How far the next micro-batch goes, and what is said of records that are gone."""

import json

import pytest

from headrace.model.identity import TopicPartition
from headrace.spark.errors import HeadraceSparkError
from headrace.spark.source.admission import LogState, advance, position_after
from headrace.spark.source.stream_offsets import StreamOffsets, ranges_of_batch, read_stream_offsets

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
START = StreamOffsets(positions={A: 10}, topic_ids={"t": "one"}, planned_at_ms=1)


def state(*, earliest: dict[TopicPartition, int] | None = None, topic_id: str = "one", **latest: int) -> LogState:
    ends = {TopicPartition("t", int(name[1:])): offset for name, offset in latest.items()}
    return LogState(topic_ids={"t": topic_id}, earliest=dict.fromkeys(ends, 0) | (earliest or {}), latest=ends)


def next_of(start: StreamOffsets, found: LogState, target: dict[TopicPartition, int] | None = None) -> StreamOffsets:
    return position_after(start, advance(start, found, target), found, offsets_max=None, planned_at_ms=2)


def test_without_new_records_the_position_itself_comes_back() -> None:
    assert next_of(START, state(p0=10)) is START


def test_a_batch_reads_from_the_last_position_to_the_end() -> None:
    end = next_of(START, state(p0=25))

    assert [(one.start, one.end) for one in ranges_of_batch(START, end)] == [(10, 25)]


def test_a_new_partition_is_read_from_its_beginning_and_the_batch_says_where_that_was() -> None:
    end = next_of(START, state(p0=10, p1=8, earliest={B: 3}))

    assert end.begins == {B: 3}
    assert [(one.partition, one.start, one.end) for one in ranges_of_batch(START, end)] == [(B, 3, 8)]


def test_a_new_partition_without_records_causes_no_batch() -> None:
    assert next_of(START, state(p0=10, p1=0)) is START


def test_records_that_aged_out_are_named_and_skipped() -> None:
    found = state(p0=50, earliest={A: 30})
    ahead = advance(START, found, None)

    assert ahead.losses == ("offsets 10 to 30 of t-0 aged out before they were read",)
    assert [(one.start, one.end) for one in ranges_of_batch(START, next_of(START, found))] == [(30, 50)]


def test_a_topic_created_again_is_told_from_lost_records_by_its_id() -> None:
    found = state(p0=4, topic_id="two")
    ahead = advance(START, found, None)

    assert "topic t was deleted and created again (its id was one, now two)" in ahead.losses[0]
    assert [(one.start, one.end) for one in ranges_of_batch(START, next_of(START, found))] == [(0, 4)]


def test_a_topic_created_again_and_longer_than_before_is_read_from_its_beginning() -> None:
    end = next_of(START, state(p0=40, topic_id="two"))

    assert [(one.start, one.end) for one in ranges_of_batch(START, end)] == [(0, 40)]


def test_a_log_that_was_cut_is_reported_and_goes_on_at_its_end() -> None:
    ahead = advance(START, state(p0=6), None)

    assert ahead.losses == ("t-0 ends at 6, before the position 10: its log was cut",)
    assert ahead.starts == {A: 6}


def test_a_partition_that_is_gone_is_reported() -> None:
    assert "t-0 is gone" in advance(START, state(p1=5), None).losses[0]


def test_available_now_stops_at_its_target_and_leaves_new_partitions_for_later() -> None:
    end = next_of(START, state(p0=99, p1=99), target={A: 20})

    assert dict(end.positions) == {A: 20}
    assert next_of(end, state(p0=120, p1=99), target={A: 20}) is end


def test_a_batch_that_lost_nothing_is_not_read_twice_by_its_own_beginnings() -> None:
    end = next_of(START, state(p0=10, p1=8))

    assert ranges_of_batch(end, end) == []
    assert [(one.partition, one.start) for one in ranges_of_batch(end, next_of(end, state(p0=10, p1=9)))] == [(B, 8)]


def test_a_position_survives_the_checkpoint_and_equal_positions_are_equal_text() -> None:
    end = StreamOffsets(positions={B: 2, A: 1}, topic_ids={"t": "one"}, begins={B: 0}, planned_at_ms=3)
    same = StreamOffsets(positions={A: 1, B: 2}, topic_ids={"t": "one"}, begins={B: 0}, planned_at_ms=3)

    assert read_stream_offsets(json.loads(json.dumps(end.to_json()))) == end
    assert json.dumps(end.to_json()) == json.dumps(same.to_json())


def test_a_position_of_another_source_is_refused() -> None:
    with pytest.raises(HeadraceSparkError, match="not of the headrace source"):
        read_stream_offsets({"logOffset": 3})
