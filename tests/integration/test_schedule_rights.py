"""Whose schedules are whose: brokers write for them, so whoever changes one needs the right to write there."""

import json
from collections.abc import Iterator

import pytest

from headrace.model.access.acls import Operation
from headrace.model.errors import ErrorCode
from headrace.model.names import SCHEDULES
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.testing import Broker
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.integration.test_access_rules import DENIED, ROOT, asked, client, make, rule
from tests.support.raw import produce
from tests.support.users import take_client_ids_for_users
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _client_ids_are_users(monkeypatch: pytest.MonkeyPatch) -> None:
    take_client_ids_for_users(monkeypatch)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings=ROOT) as broker:
        topics = tuple(
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
            for name in ("orders", "secrets")
        )
        with client(broker, "root") as root:
            root.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
            until(lambda: root.call(asked(SCHEDULES), 9).topics[0].error_code == ErrorCode.NONE)
        make(broker, rule("User:ann", Operation.WRITE, SCHEDULES), rule("User:ann", Operation.WRITE, "orders"))
        until(lambda: write(broker, "root", "hers", hourly("secrets")) == ErrorCode.NONE)
        yield broker


def hourly(topic: str) -> bytes:
    return json.dumps({"cron": "0 * * * *", "topic": topic, "value": "x"}).encode()


def write(broker: Broker, who: str, name: str, value: bytes | None) -> int:
    records = build_batch([Record(0, 1, name.encode(), value, ())])
    with client(broker, who) as somebody:
        return int(somebody.call(produce(SCHEDULES, records), 9).responses[0].partition_responses[0].error_code)


def test_who_may_write_to_a_topic_may_have_a_schedule_write_there(broker: Broker) -> None:
    assert write(broker, "ann", "mine", hourly("orders")) == ErrorCode.NONE
    assert write(broker, "ann", "mine", b'{"run": "now"}') == ErrorCode.NONE
    assert write(broker, "ann", "mine", None) == ErrorCode.NONE


@pytest.mark.parametrize("value", [hourly("orders"), hourly("secrets"), b'{"run": "now"}', None])
def test_nobody_else_changes_runs_or_removes_a_schedule(broker: Broker, value: bytes | None) -> None:
    assert write(broker, "ann", "hers", value) == DENIED
    assert write(broker, "bob", "his", hourly("orders")) == DENIED


def test_who_may_not_write_to_a_topic_does_not_hear_whether_there_is_one(broker: Broker) -> None:
    assert write(broker, "ann", "mine", hourly("secrets")) == DENIED
    assert write(broker, "ann", "mine", hourly("no-such-topic")) == DENIED
