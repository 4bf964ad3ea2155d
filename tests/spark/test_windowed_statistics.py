"""The windowed-statistics pipeline under a clock of event times that the tests set."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.spark.conftest import RecordWriter, TopicMaker, Transaction, committed_messages
from tests.spark.pipelines import Pipelines, Values, parsed

NOON = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)
MINUTE = 60_000


class Events:
    """A topic of events and what the pipeline makes of it."""

    def __init__(self, pipelines: Pipelines, make_topic: TopicMaker, produce: RecordWriter, committed_values: Values) -> None:
        self.pipelines = pipelines
        # The tests live in 2026-03; records that old must not age out.
        self.source = make_topic(2, retention_ms="-1")
        self.results = make_topic(name=f"{self.source}.statistics")
        self.letters = make_topic(name=f"{self.source}.dead-letter")
        self._produce = produce
        self._values = committed_values
        self.late = 0

    def send(self, *events: tuple[str, float, float], arrived: float | None = None) -> None:
        """Events of a key, a value and a time in minutes after noon; they arrive at their time unless told otherwise."""
        self._produce(
            self.source,
            [event_text(*event) for event in events],
            partition=[ord(key[0]) % 2 for key, _, _ in events],
            timestamps=[NOON + int((minute if arrived is None else arrived) * MINUTE) for _, _, minute in events],
        )

    def send_raw(self, *values: bytes | None) -> None:
        self._produce(self.source, list(values), timestamps=[NOON] * len(values))

    def process(self) -> None:
        overrides = {
            "source.subscribe": self.source,
            "sinks.topic.topic": self.results,
            "sinks.files.path": str(self.pipelines.folder / "files"),
        }
        running = self.pipelines.run("windowed-statistics", overrides)
        for report in running.queries[-1].recentProgress:
            self.late += sum(one["numRowsDroppedByWatermark"] for one in report["stateOperators"])

    @property
    def windows(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Results by key and the minute after noon that the window begins at."""
        found = parsed(self._values(self.results))
        by_window = {(one["key"], (_millis(one["window_start"]) - NOON) // MINUTE): one for one in found}
        assert len(by_window) == len(found), "a window is given out once"
        return by_window


def event_text(key: str, value: float, minute: float) -> bytes:
    return json.dumps({"key": key, "value": value, "time": _iso(NOON + int(minute * MINUTE))}).encode()


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _millis(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.fixture
def events(pipelines: Pipelines, make_topic: TopicMaker, produce: RecordWriter, committed_values: Values) -> Events:
    return Events(pipelines, make_topic, produce, committed_values)


def test_each_key_and_window_has_its_count_sum_mean_and_percentile_in_topic_and_files(events: Events) -> None:
    events.send(*[("a", number, 1) for number in range(1, 101)], ("b", 5, 2), ("b", 7, 5))
    events.send(("a", 0, 60))  # moves the watermark past the windows before it
    events.process()

    first = events.windows["a", 0]
    assert (first["count"], first["sum"], first["mean"], first["p95"]) == (100, 5050, 50.5, 95)
    assert (events.windows["b", 0]["sum"], events.windows["b", 4]["sum"]) == (5, 7)
    files = events.pipelines.spark.read.parquet(str(events.pipelines.folder / "files"))
    assert sorted((row["key"], row["count"]) for row in files.collect()) == [("a", 100), ("b", 1), ("b", 1)]


def test_an_event_that_is_late_within_the_watermark_counts_and_a_later_one_is_dropped_and_counted(events: Events) -> None:
    events.send(("a", 1, 1), ("a", 1, 12))
    events.process()
    events.send(("a", 2, 2), arrived=12)  # 10 minutes behind the newest: the window [0, 4) is still open at 12 - 10 = 2
    events.process()
    events.send(("a", 1, 40))
    events.process()
    events.send(("a", 100, 3), arrived=40)  # its window was given out
    events.send(("a", 1, 80))
    events.process()

    assert events.windows["a", 0]["sum"] == 3
    assert events.late == 1


def test_an_event_from_the_future_goes_to_the_dead_letters_and_does_not_move_the_watermark(
    events: Events, bootstrap: str
) -> None:
    events.send(("a", 1, 1))
    events.send(("a", 1, 600), arrived=1)
    events.process()
    events.send(("a", 1, 2))
    events.send(("b", 1, 60))
    events.process()

    assert events.windows["a", 0]["count"] == 2
    (letter,) = committed_messages(bootstrap, events.letters)
    assert dict(letter.headers())["headrace-dead-letter-reason"] == b"the time is more than 10 minutes ahead of the record's own"


def test_windows_without_events_and_keys_that_come_and_go_give_no_rows_of_their_own(events: Events) -> None:
    events.send(("a", 1, 1), ("b", 1, 21), ("c", 1, 60))
    events.process()

    assert set(events.windows) == {("a", 0), ("b", 20)}


def test_events_of_aborted_transactions_do_not_count(events: Events, transact: Transaction, bootstrap: str) -> None:
    transact(events.source, [event_text("a", 1, 1), b"{broken"], commit=False, partition=1)
    transact(events.source, [event_text("a", 2, 1)], commit=True, partition=1)
    events.send(("a", 1, 60))
    events.process()

    assert (events.windows["a", 0]["count"], events.windows["a", 0]["sum"]) == (1, 2)
    assert committed_messages(bootstrap, events.letters) == []


def test_what_does_not_parse_is_put_aside_with_the_reason_and_nothing_stops(events: Events, bootstrap: str) -> None:
    missing = b'{"key": "a", "time": "2026-03-01T12:00:00Z"}'
    wrong = b'{"key": "a", "value": "much", "time": "2026-03-01T12:00:00Z"}'
    events.send_raw(b"{broken", None, missing, wrong)
    events.send(("a", 1, 1), ("a", 1, 60))
    events.process()

    assert events.windows["a", 0]["count"] == 1
    letters = {letter.value(): dict(letter.headers()) for letter in committed_messages(bootstrap, events.letters)}
    prefix = "headrace-dead-letter-"
    assert set(letters) == {b"{broken", None, missing, wrong}
    assert letters[None][f"{prefix}reason"] == b"the value is null"
    assert letters[b"{broken"][f"{prefix}reason"].startswith(b"the value is not JSON of the form key STRING, value DOUBLE")
    assert letters[missing][f"{prefix}reason"] == b"the field value is missing or not double"
    facts = letters[b"{broken"]
    assert (facts[f"{prefix}topic"], facts[f"{prefix}partition"], facts[f"{prefix}offset"]) == (
        events.source.encode(),
        b"0",
        b"0",
    )
    assert datetime.fromisoformat(facts[f"{prefix}last-failed-at"].decode()).tzinfo is not None
