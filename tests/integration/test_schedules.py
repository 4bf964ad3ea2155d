"""Schedules as people see them: made by a command, or by any client, fired once per due time, also over restarts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from headrace import Admin, Consumer
from headrace.cli.main import run
from headrace.client.admin.schedules import Schedules
from headrace.model.errors import ErrorCode
from headrace.model.names import SCHEDULES
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.testing import Broker
from tests.support.raw import RawClient, produce
from tests.support.waiting import stays, until

HOURLY = {"cron": "0 * * * *", "topic": "jobs", "value": "tick", "key": "k", "missed": "all", "headers": {"kind": "clock"}}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path) as broker:
        with Admin(broker.bootstrap) as admin:
            admin.create_topic("jobs", partitions=2)
        yield broker


def fired(broker: Broker, count: int) -> list[int]:
    """The due times of the first so many records."""
    with Consumer("jobs", bootstrap=broker.bootstrap, values=str, start="earliest") as consumer:
        records = [record for _, record in zip(range(count), consumer.records(timeout=20), strict=False)]
    assert all(record.value == "tick" for record in records)
    return [int(dict(record.headers)["headrace-scheduled-at"] or b"") for record in records]


def underway(broker: Broker) -> int:
    return broker.run(lambda inside: sum(len(list(led.shard.underway())) for led in inside.parts.schedules.shards.loaded()))


def test_each_due_time_is_fired_once_through_restarts(broker: Broker) -> None:
    schedules = Schedules(broker.bootstrap)
    schedules.put("hourly", HOURLY)
    first = schedules.get("hourly").next_due_ms
    assert first is not None
    expected = [first + hour * 3_600_000 for hour in range(6)]
    broker.clock.advance(hours=2)
    assert fired(broker, 2) == expected[:2]
    broker.abandon()
    broker.clock.advance(hours=2)
    broker.start()
    assert fired(broker, 4) == expected[:4]
    broker.restart()
    broker.clock.advance(hours=2)

    assert fired(broker, 6) == expected
    until(lambda: underway(broker) == 0)
    stays(lambda: len(fired(broker, 6)) == 6, seconds=0.2)


def test_the_commands_make_show_pause_resume_run_and_remove(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    def type_in(*words: str) -> str:
        assert run(["schedule", *words, "-b", broker.bootstrap]) == 0, capsys.readouterr().err
        shown = capsys.readouterr()
        return shown.out + shown.err

    made = type_in("add", "nightly", "--cron", "0 3 * * *", "--timezone", "Europe/Vienna", "--topic", "jobs", "--value", "tick")
    assert "nightly is due next at" in made
    assert "nightly" in type_in("list")
    assert json.loads(type_in("show", "nightly"))["timezone"] == "Europe/Vienna"
    assert "paused" in type_in("pause", "nightly")
    assert "paused" in type_in("list")
    assert "is due next at" in type_in("resume", "nightly")
    type_in("run", "nightly")
    assert len(fired(broker, 1)) == 1
    type_in("remove", "nightly")
    assert Schedules(broker.bootstrap).all() == {}
    assert run(["schedule", "show", "nightly", "-b", broker.bootstrap]) == 1
    assert "there is no schedule nightly" in capsys.readouterr().err


WRONG = [
    (b"s", json.dumps({**HOURLY, "cron": "often"}).encode()),
    (b"s", json.dumps({**HOURLY, "timezone": "Mars/Olympus"}).encode()),
    (b"s", json.dumps({**HOURLY, "topic": "nowhere"}).encode()),
    (b"s", json.dumps({**HOURLY, "topic": SCHEDULES}).encode()),
    (b"s", json.dumps({**HOURLY, "missed": "never"}).encode()),
    (b"s", json.dumps({**HOURLY, "surprise": 1}).encode()),
    (b"s", json.dumps({**HOURLY, "headers": {"\ud800": "x"}}).encode()),
    (b"a b", json.dumps(HOURLY).encode()),
    (b"s", b"nonsense"),
    (b"s", b'{"run": "x"}'),
]


def test_any_client_makes_schedules_and_what_is_none_is_refused(broker: Broker) -> None:
    outcomes: list[int | None] = []

    def note(error: KafkaError | None, message: Message) -> None:
        outcomes.append(None if error is None else error.code())

    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for key, value in [(b"good", json.dumps(HOURLY).encode()), *WRONG]:
        producer.produce(SCHEDULES, value, key, on_delivery=note)
        producer.flush(30)

    assert outcomes == [None, *[KafkaError.INVALID_RECORD] * len(WRONG)]
    assert list(Schedules(broker.bootstrap).all()) == ["good"]


def test_a_schedule_cannot_be_changed_in_a_transaction(broker: Broker) -> None:
    Schedules(broker.bootstrap).put("hourly", HOURLY)
    removal = Record(0, 1, b"hourly", None, ())
    batch = build_batch([removal], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    with RawClient(broker.bootstrap) as client:
        result = client.call(produce(SCHEDULES, batch), 9).responses[0].partition_responses[0]

    assert (result.error_code, "transaction" in result.error_message) == (ErrorCode.INVALID_RECORD, True)
    assert list(Schedules(broker.bootstrap).all()) == ["hourly"]
