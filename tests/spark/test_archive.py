"""Archive, replay and audit: what goes in comes out, byte for byte, once."""

import json
import random
import time
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from headrace.spark.errors import PipelineError
from headrace.spark.sink.file_sink import FileSink, Folder, committed_files
from tests.spark.conftest import RecordWriter, TopicMaker, Transaction, committed_messages
from tests.spark.pipelines import Pipelines

NOW = int(time.time() * 1000)


def fill(produce: RecordWriter, topic: str, count: int, partitions: int, seed: int = 1) -> None:
    """Records of all shapes: null and empty keys and values, headers, timestamps over three hours, not in order."""
    dice = random.Random(seed)
    bodies = [None, b"", b"\x00\xff", "grün".encode()]
    produce(
        topic,
        [dice.choice([*bodies, dice.randbytes(50)]) for _ in range(count)],
        keys=[dice.choice([*bodies, b"k%d" % dice.randrange(5)]) for _ in range(count)],
        partition=[dice.randrange(partitions) for _ in range(count)],
        timestamps=[NOW - dice.randrange(3 * 3_600_000) for _ in range(count)],
        headers=[dice.choice([None, [("a", b"1"), ("a", None), ("", b"")]]) for _ in range(count)],
    )


def content(bootstrap: str, topic: str, partitions: int) -> dict[int, list[tuple[Any, ...]]]:
    """Everything that a record is, in the order of each partition."""
    found: dict[int, list[tuple[Any, ...]]] = {number: [] for number in range(partitions)}
    for message in committed_messages(bootstrap, topic, partitions):
        found[message.partition()].append((message.key(), message.value(), message.timestamp()[1], message.headers()))
    return found


def test_a_topic_comes_back_from_its_archive_byte_for_byte(
    pipelines: Pipelines, bootstrap: str, make_topic: TopicMaker, produce: RecordWriter
) -> None:
    source, target = make_topic(3), make_topic(3)
    archive = str(pipelines.folder / "archive")
    for seed in (1, 2):  # two runs, so that the archive holds more than one batch
        fill(produce, source, 60, 3, seed)
        pipelines.run("archive", {"source.subscribe": source, "sinks.files.path": archive})
    pipelines.run("replay", {"source.path": archive, "settings.topic": source, "sinks.topic.topic": target})

    assert content(bootstrap, target, 3) == content(bootstrap, source, 3)
    assert pipelines.said == [f"replay: 120 rows written to topic {target}"]


def archived(pipelines: Pipelines, topic: str) -> str:
    """An archive of two records, one of partition 0 and one of partition 2."""
    rows = [(topic, partition, 0, b"k", b"v", datetime.fromtimestamp(NOW / 1000), None) for partition in (0, 2)]
    columns = "topic STRING, partition INT, offset LONG, key BINARY, value BINARY, timestamp TIMESTAMP"
    frame = pipelines.spark.createDataFrame(rows, f"{columns}, headers ARRAY<STRUCT<key: STRING, value: BINARY>>")
    frame.write.parquet(str(pipelines.folder / "archive"))
    return str(pipelines.folder / "archive")


@pytest.mark.parametrize("source_exists", [True, False])
def test_a_replay_creates_its_target_with_the_partitions_of_the_source(
    source_exists: bool, pipelines: Pipelines, bootstrap: str, make_topic: TopicMaker, admin: AdminClient
) -> None:
    source = make_topic(5) if source_exists else f"gone-{uuid.uuid4().hex[:8]}"
    target = f"{source}.replayed"
    overrides = {"source.path": archived(pipelines, source), "settings.topic": source, "sinks.topic.topic": target}
    pipelines.run("replay", overrides | {"settings.to": "2001-01-01T00:00:00Z"})
    assert target not in admin.list_topics(timeout=30).topics
    pipelines.run("replay", overrides)

    assert len(admin.list_topics(timeout=30).topics[target].partitions) == (5 if source_exists else 3)
    assert [message.partition() for message in committed_messages(bootstrap, target, 3)] == [0, 2]
    assert pipelines.said == [f"replay: {count} rows written to topic {target}" for count in (0, 2)]


def test_a_replay_into_a_topic_with_too_few_partitions_writes_nothing_and_says_how_many(
    pipelines: Pipelines, bootstrap: str, make_topic: TopicMaker
) -> None:
    source, target = make_topic(3), make_topic(2)
    path = archived(pipelines, source)

    with pytest.raises(PipelineError, match=f"topic {target} has 2 of the 3 partitions that the records come from"):
        pipelines.run("replay", {"source.path": path, "settings.topic": source, "sinks.topic.topic": target})
    assert committed_messages(bootstrap, target, 2) == []


def test_the_archive_has_a_folder_per_topic_date_and_hour(
    pipelines: Pipelines, make_topic: TopicMaker, produce: RecordWriter
) -> None:
    source, archive = make_topic(retention_ms="-1"), pipelines.folder / "archive"
    produce(source, [b"a", b"b"], timestamps=[1_767_225_600_000, 1_767_225_600_000 + 3_600_000])
    pipelines.run("archive", {"source.subscribe": source, "sinks.files.path": str(archive)})

    folders = {str(path.parent.relative_to(archive)) for path in archive.glob("topic=*/**/*.parquet")}
    assert folders == {f"topic={source}/date=2026-01-01/hour=00", f"topic={source}/date=2026-01-01/hour=01"}


def test_a_batch_that_runs_again_is_not_archived_twice(
    pipelines: Pipelines, make_topic: TopicMaker, produce: RecordWriter
) -> None:
    source, archive = make_topic(), str(pipelines.folder / "archive")
    produce(source, [b"x"] * 10)
    for _ in range(2):
        pipelines.run("archive", {"source.subscribe": source, "sinks.files.path": archive})
        for name in ("0", ".0.crc"):
            (pipelines.folder / "checkpoints" / "archive" / "main" / "commits" / name).unlink()

    assert pipelines.spark.read.parquet(archive).count() == 10


class TestFileSink:
    """The sink by itself, with crashes at every step."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> str:
        return str(tmp_path / "files")

    @pytest.fixture
    def query(self) -> str:
        return str(uuid.uuid4())

    def test_a_crash_at_any_step_leaves_each_row_once(
        self, spark: SparkSession, path: str, query: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = spark.range(0, 20, 1, 3).selectExpr("id AS offset", "id % 2 AS hour")
        for step in range(1, 12):
            sink = FileSink(spark, path, partition_by=["hour"])
            calls = _fail_at(monkeypatch, step)
            try:
                sink.write(rows, query, 0)
            except _Crash:
                assert _count(spark, path) in (0, 20), "a batch shows whole or not at all"
            monkeypatch.undo()
            if len(calls) < step:
                break
        FileSink(spark, path, partition_by=["hour"]).write(rows, query, 0)
        FileSink(spark, path, partition_by=["hour"]).write(rows, query, 1)

        assert step > 4, "the steps were interrupted one after the other"
        assert _count(spark, path) == 40
        assert spark.read.parquet(path).count() == 40

    def test_small_files_are_merged_and_a_crash_in_the_middle_loses_and_doubles_nothing(
        self, spark: SparkSession, path: str, query: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plain = FileSink(spark, path)
        for batch in range(4):
            plain.write(spark.range(batch * 5, batch * 5 + 5, 1, 1).selectExpr("id AS offset"), query, batch)
        merging = FileSink(spark, path, merge_after=4, order_by=["offset"])
        for step in range(1, 9):
            calls = _fail_at(monkeypatch, step)
            try:
                merging.merge({""})
            except _Crash:
                assert _count(spark, path) == 20
            monkeypatch.undo()
            if len(calls) < step:
                break
        merging.merge({""})

        files = committed_files(spark, path)
        assert len(files) == 1
        assert [row.offset for row in spark.read.parquet(*files).collect()] == list(range(20))
        assert spark.read.parquet(path).count() == 20


class _Crash(Exception):
    """The process ends here, as far as the sink can tell."""


def _fail_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Let the nth change to the folder be the first that does not happen."""
    calls: list[str] = []

    def counting(name: str) -> None:
        real = getattr(Folder, name)

        def change(self: Folder, *arguments: Any) -> Any:
            calls.append(name)
            if len(calls) >= step:
                raise _Crash(name)
            return real(self, *arguments)

        monkeypatch.setattr(Folder, name, change)

    for name in ("move", "delete", "write_json"):
        counting(name)
    return calls


def _count(spark: SparkSession, path: str) -> int:
    files = committed_files(spark, path)
    return spark.read.option("basePath", path).parquet(*files).count() if files else 0


class TestAudit:
    """What the audit finds, and what it says of sound data."""

    def test_sound_data_gives_no_findings_and_equal_checksums_for_topic_and_archive(
        self, pipelines: Pipelines, make_topic: TopicMaker, produce: RecordWriter
    ) -> None:
        source, archive = make_topic(2), str(pipelines.folder / "archive")
        produce(source, [b"%d" % at for at in range(40)], keys=[b"k"] * 40, partition=[at % 2 for at in range(40)])
        pipelines.run("archive", {"source.subscribe": source, "sinks.files.path": archive})
        of_topic = self.audit(pipelines, "topic", {"source.subscribe": source})
        of_files = self.audit(pipelines, "files", {"source.format": "parquet", "source.path": archive})

        assert (of_topic["findings"], of_topic["records"]) == (0, 40)
        assert (of_topic["checksum"], of_topic["content_checksum"]) == (of_files["checksum"], of_files["content_checksum"])
        report = (pipelines.folder / "topic" / "report.md").read_text()
        assert "Nothing is wrong." in report
        assert pipelines.said[0] == f"audit: nothing is wrong, see {pipelines.folder}/topic/report.md"
        assert (pipelines.folder / "topic" / "over-time.png").stat().st_size > 1000

    def test_gaps_duplicates_and_broken_order_are_found_and_listed(
        self, pipelines: Pipelines, make_topic: TopicMaker, produce: RecordWriter, transact: Transaction
    ) -> None:
        source = make_topic()
        produce(
            source,
            [b"1", b"2", b"2 again", b"4"],
            keys=[b"k"] * 4,
            timestamps=[NOW, NOW + 9, NOW + 5, NOW + 9],
            headers=[[("id", b"1")], [("id", b"2")], [("id", b"2")], [("id", b"4")]],
        )
        transact(source, [b"never"] * 3, commit=False)
        produce(source, [b"last"])
        found = self.audit(pipelines, "found", {"source.subscribe": source, "source.kafka.isolation.level": "read_committed"})

        assert found["counts"] == {"empty": 0, "gap": 1, "duplicate": 1, "order": 1}
        assert pipelines.said == [f"audit: 3 findings, see {pipelines.folder}/found/report.md"]
        assert [(one["offset"], one["number"]) for one in found["examples"]["gap"]] == [(8, 4)]
        said = {kind: (one["offset"], one["detail"]) for kind, listed in found["examples"].items() for one in listed}
        assert said["duplicate"] == (2, "key k and id 2 as in partition 0, offset 1")
        assert said["order"] == (2, "key k: 4 ms before the record of its key that it follows")
        report = (pipelines.folder / "found" / "report.md").read_text()
        assert "| Offsets that are missing between two that are there | 1 |" in report
        assert f"| {source} | 0 | 2 | key k and id 2 as in partition 0, offset 1 |" in report

    def test_no_records_are_a_finding(self, pipelines: Pipelines, make_topic: TopicMaker) -> None:
        found = self.audit(pipelines, "empty", {"source.subscribe": make_topic(2)})

        assert (found["findings"], found["counts"]["empty"], found["records"]) == (1, 1, 0)
        assert pipelines.said == [f"audit: no records were read, see {pipelines.folder}/empty/report.md"]
        report = (pipelines.folder / "empty" / "report.md").read_text()
        assert "**No records were read.**" in report
        assert "Nothing is wrong" not in report

    def test_a_changed_byte_changes_the_checksum(
        self, pipelines: Pipelines, make_topic: TopicMaker, produce: RecordWriter
    ) -> None:
        one, other = make_topic(), make_topic()
        produce(one, [b"a", b""], timestamps=[NOW, NOW])
        produce(other, [b"a", None], timestamps=[NOW, NOW])

        sums = [self.audit(pipelines, topic, {"source.subscribe": topic})["content_checksum"] for topic in (one, other)]
        assert sums[0] != sums[1]

    def audit(self, pipelines: Pipelines, name: str, overrides: dict[str, str]) -> dict[str, Any]:
        running = pipelines.run("audit", overrides | {"sinks.report.path": str(pipelines.folder / name)})
        found: dict[str, Any] = json.loads((pipelines.folder / name / "report.json").read_text())
        assert running.findings == found["findings"]
        return found


def test_dead_letters_go_back_to_their_origin_until_the_limit(
    pipelines: Pipelines, bootstrap: str, make_topic: TopicMaker, produce: RecordWriter
) -> None:
    origin = make_topic(2)
    letters = make_topic(name=f"{origin}.dead-letter")
    facts = [("mine", b"x"), ("headrace-dead-letter-topic", origin.encode()), ("headrace-dead-letter-partition", b"1")]
    produce(
        letters,
        [b"first", b"second", b"often"],
        keys=[b"k"] * 3,
        headers=[facts, [*facts, ("headrace-redriven", b"1")], [*facts, ("headrace-redriven", b"2")]],
    )
    for _ in range(2):  # the second run finds nothing new
        pipelines.run("redrive", {"source.subscribe": letters, "settings.limit": "2"})

    back = committed_messages(bootstrap, origin, 2)
    assert [(one.value(), one.partition(), one.headers()) for one in back] == [
        (b"first", 1, [("mine", b"x"), ("headrace-redriven", b"1")]),
        (b"second", 1, [("mine", b"x"), ("headrace-redriven", b"2")]),
    ]
    aside = committed_messages(bootstrap, f"{letters}.parked")
    assert [(one.value(), len(one.headers())) for one in aside] == [(b"often", 4)]
    assert pipelines.said == []


def test_foreign_records_among_dead_letters_stop_no_redrive_and_are_counted_and_named(
    pipelines: Pipelines, bootstrap: str, make_topic: TopicMaker, produce: RecordWriter, admin: AdminClient
) -> None:
    origin = make_topic()
    letters, gone = make_topic(name=f"{origin}.dead-letter"), f"{origin}.gone"
    produce(
        letters,
        [b"stray", b"of no topic", b"of no partition", b"sound"],
        headers=[
            [("headrace-redriven", b"-7"), ("mine", b"\xff")],
            [("headrace-dead-letter-topic", gone.encode())],
            [("headrace-dead-letter-topic", origin.encode()), ("headrace-dead-letter-partition", b"99")],
            [("headrace-dead-letter-topic", origin.encode()), ("headrace-dead-letter-partition", b"0")],
        ],
    )
    pipelines.run("redrive", {"source.subscribe": letters})

    assert [one.value() for one in committed_messages(bootstrap, origin)] == [b"of no partition", b"sound"]
    assert pipelines.said == [
        f"redrive: {letters}[0]@0: it does not say where it came from; it is not sent back",
        f"redrive: {letters}[0]@1: it came from topic '{gone}', which does not exist; it is not sent back",
        "redrive: 2 records stay in the dead-letter topic",
    ]
    assert not {gone, f"{letters}.parked"} & set(admin.list_topics(timeout=30).topics)
