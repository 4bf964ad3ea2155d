"""The files of a log from the command line: what is in them, and what is wrong with them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.records.batch import build_batch
from headrace.records.record import Record

Command = Callable[..., Any]
SEGMENT = "00000000000000000000.log"


def batch(base_offset: int, *values: bytes, codec: str = "none") -> bytes:
    records = [
        Record(base_offset + number, 1_700_000_000_000 + number, b"k", value, (("h", b"1"),))
        for number, value in enumerate(values)
    ]
    return bytes(build_batch(records, base_offset=base_offset, compression=codec))


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition of three batches, with an index entry for the second."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    first, second, third = batch(0, b"a", b"b"), batch(2, b"c", codec="lz4"), batch(3, b"d")
    (directory / SEGMENT).write_bytes(first + second + third)
    (directory / SEGMENT).with_suffix(".index").write_bytes((2).to_bytes(4, "big") + len(first).to_bytes(4, "big"))
    return directory


def damage(partition: Path, position: int) -> None:
    data = bytearray((partition / SEGMENT).read_bytes())
    data[position] ^= 0xFF
    (partition / SEGMENT).write_bytes(data)


def test_the_batches_of_a_segment_are_listed_with_their_verdicts(headrace: Command, partition: Path) -> None:
    outcome = headrace("log", "inspect", str(partition / SEGMENT), "--json")

    found = json.loads(outcome.output)
    assert outcome.code == 0
    assert [(each["first_offset"], each["last_offset"], each["records"], each["codec"]) for each in found["batches"]] == [
        (0, 1, 2, "none"),
        (2, 2, 1, "lz4"),
        (3, 3, 1, "none"),
    ]
    assert found["faults"] == []


def test_the_records_of_every_batch_are_shown_when_asked_for(headrace: Command, partition: Path) -> None:
    outcome = headrace("log", "inspect", str(partition / SEGMENT), "--records", "--json")

    contents = [record for each in json.loads(outcome.output)["batches"] for record in each["contents"]]
    assert [(record["offset"], record["key"], record["value"], record["headers"]) for record in contents] == [
        (0, "k", "a", ["h=1"]),
        (1, "k", "b", ["h=1"]),
        (2, "k", "c", ["h=1"]),
        (3, "k", "d", ["h=1"]),
    ]


def test_a_flipped_bit_is_found_and_the_batches_around_it_are_still_shown(headrace: Command, partition: Path) -> None:
    damage(partition, len(batch(0, b"a", b"b")) + 70)

    outcome = headrace("log", "inspect", str(partition / SEGMENT), "--json")

    found = json.loads(outcome.output)
    assert outcome.code == 1
    assert [each["first_offset"] for each in found["batches"]] == [0, 3]
    assert "CRC" in found["faults"][0]
    assert "offsets 2 to 2" in outcome.remarks


def test_an_index_is_listed_with_whole_offsets(headrace: Command, partition: Path) -> None:
    outcome = headrace("log", "inspect", str((partition / SEGMENT).with_suffix(".index")), "--json")

    assert json.loads(outcome.output) == [{"offset": 2, "position": len(batch(0, b"a", b"b"))}]


def test_a_sound_directory_is_verified(headrace: Command, partition: Path) -> None:
    outcome = headrace("log", "verify", str(partition.parent), "--json")

    (row,) = json.loads(outcome.output)
    assert outcome.code == 0
    assert (row["partition"], row["segments"], row["batches"], row["records"], row["faults"]) == ("orders-0", 1, 3, 4, [])


def test_a_torn_tail_and_a_wrong_index_are_faults(headrace: Command, partition: Path) -> None:
    with (partition / SEGMENT).open("ab") as file:
        file.write(batch(4, b"e")[:-5])
    (partition / SEGMENT).with_suffix(".index").write_bytes((2).to_bytes(4, "big") + (7).to_bytes(4, "big"))

    outcome = headrace("log", "verify", str(partition))

    assert outcome.code == 1
    assert "are no batch (it reaches beyond the end of the file)" in outcome.remarks
    assert "1 of 1 entries are wrong" in outcome.remarks
    assert "1 of 1 directories" in outcome.remarks


def test_looking_changes_no_byte(headrace: Command, partition: Path) -> None:
    damage(partition, 70)
    before = {path.name: path.read_bytes() for path in partition.iterdir()}

    headrace("log", "verify", str(partition))
    headrace("log", "inspect", str(partition / SEGMENT))

    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


def test_what_is_no_log_is_said_to_be_none(headrace: Command, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")

    assert headrace("log", "inspect", str(tmp_path / "absent.log")).code == 1
    assert headrace("log", "inspect", str(tmp_path / "notes.txt")).code == 2
    assert headrace("log", "verify", str(tmp_path)).code == 1
    assert headrace("log", "verify", str(tmp_path / "absent")).code == 1


def test_the_log_that_a_broker_leaves_behind_is_sound(headrace: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.testing import Broker

    with Broker(
        data=tmp_path / "data", settings={"internal.log.segment.bytes": "20000", "log.index.interval.bytes": "1000"}
    ) as broker:
        lines = b"".join(b"%d %s\n" % (number, b"x" * 100) for number in range(2000))
        written = headrace("produce", "orders", "-b", broker.bootstrap, "-X", "batch.num.messages=20", given=lines)
    assert written.code == 0, written.remarks

    outcome = headrace("log", "verify", str(tmp_path / "data"), "--json")

    rows = {row["partition"]: row for row in json.loads(outcome.output)}
    assert outcome.code == 0, outcome.remarks
    assert rows["orders-0"]["records"] == 2000
    assert rows["orders-0"]["segments"] > 5
