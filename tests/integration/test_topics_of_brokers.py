"""What brokers write for themselves: nobody else writes it, by whichever API, and who reads it was allowed to by its name."""

from collections.abc import Iterator

import pytest

from headrace.model.access.acls import Operation
from headrace.model.errors import ErrorCode
from headrace.model.names import AUDIT, CONSUMER_OFFSETS, DELAYED, GATEWAY, INTERNAL_TOPICS, SCHEDULES, WRITTEN_BY_BROKERS
from headrace.testing import Broker
from headrace.wire.apis import ApiKey
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.integration.test_access_rules import DENIED, ROOT, asked, client, make, rule
from tests.support.audit import events_in
from tests.support.filled import filled
from tests.support.raw import batch, produce
from tests.support.users import take_client_ids_for_users
from tests.support.waiting import until

NOT_THEIRS = ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.fixture(autouse=True)
def _client_ids_are_users(monkeypatch: pytest.MonkeyPatch) -> None:
    take_client_ids_for_users(monkeypatch)


def make_topics(broker: Broker) -> Broker:
    with client(broker, "root") as root:
        topics = tuple(
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
            for name in ("orders", GATEWAY)
        )
        root.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        for name in INTERNAL_TOPICS:
            until(lambda name=name: root.call(asked(name, create=True), 9).topics[0].error_code == ErrorCode.NONE)  # type: ignore[misc]
    return broker


@pytest.fixture(scope="module")
def free() -> Iterator[Broker]:
    """Without rules."""
    with Broker(settings={"headrace.audit": "on"}) as broker:
        yield make_topics(broker)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        take_client_ids_for_users(monkeypatch)
        with Broker(settings=ROOT) as broker:
            make_topics(broker)
            everything = [rule("User:all", Operation.ALL, name) for name in ("*", *INTERNAL_TOPICS)]
            named = [rule("User:named", Operation.READ, name) for name in (AUDIT, DELAYED, GATEWAY)]
            make(broker, *everything, *named, rule("User:broad", Operation.ALL, "*"))
            yield broker


def write(broker: Broker, who: str, topic: str) -> int:
    with client(broker, who) as somebody:
        return int(somebody.call(produce(topic, batch(b"forged")), 9).responses[0].partition_responses[0].error_code)


def denied_in(broker: Broker, api: str = "Produce") -> set[tuple[str, str]]:
    """Who was denied which topic, as the audit trail has it."""
    assert broker.broker is not None
    return {
        (event["actor"]["user"]["uid"], resource["name"])
        for event in events_in(broker.broker)
        if event["status_id"] == 2 and event["api"]["operation"] == api
        for resource in event["resources"]
    }


def read(broker: Broker, who: str, topic: str) -> int:
    wanted = FetchTopic(topic=topic, partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20),))
    with client(broker, who) as somebody:
        reply = somebody.call(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=(wanted,)), 12)
    return int(reply.responses[0].partitions[0].error_code)


@pytest.mark.parametrize("topic", sorted(WRITTEN_BY_BROKERS))
def test_nobody_writes_them_whatever_they_call_themselves(free: Broker, guarded: Broker, topic: str) -> None:
    assert {write(free, who, topic) for who in ("ann", "__admin_client", "broker-1", "broker-2")} == {NOT_THEIRS}
    assert {write(guarded, who, topic) for who in ("root", "all", "__admin_client")} == {NOT_THEIRS}
    until(lambda: {("User:root", topic), ("User:all", topic)} <= denied_in(guarded), "the trail has those who tried")


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
def test_no_transaction_of_a_client_reaches_into_them(free: Broker, topic: str) -> None:
    with client(free, "ann") as ann:
        asked_for = filled(ApiKey.ADD_PARTITIONS_TO_TXN, 3, {"name": topic})
        (added,) = ann.call(asked_for, 3).results_by_topic_v3_and_below

    assert added.results_by_partition[0].partition_error_code == DENIED


@pytest.mark.parametrize("topic", sorted(WRITTEN_BY_BROKERS))
def test_the_trail_has_whoever_tried_to_take_them_into_a_transaction(guarded: Broker, topic: str) -> None:
    with client(guarded, "root") as root:
        root.call(filled(ApiKey.ADD_PARTITIONS_TO_TXN, 3, {"name": topic}), 3)

    until(lambda: ("User:root", topic) in denied_in(guarded, "AddPartitionsToTxn"), "the trail has it")


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS - {CONSUMER_OFFSETS}))
def test_no_marker_is_written_into_them_by_hand(guarded: Broker, topic: str) -> None:
    with client(guarded, "root") as root:
        (marker,) = root.call(filled(ApiKey.WRITE_TXN_MARKERS, 1, {"name": topic}), 1).markers
        (other,) = root.call(filled(ApiKey.WRITE_TXN_MARKERS, 1, {"name": "orders"}), 1).markers

    assert marker.topics[0].partitions[0].error_code == NOT_THEIRS
    assert other.topics[0].partitions[0].error_code != NOT_THEIRS


@pytest.mark.parametrize("topic", [AUDIT, DELAYED, GATEWAY])
def test_reading_others_affairs_needs_a_rule_that_names_them(guarded: Broker, topic: str) -> None:
    assert read(guarded, "broad", topic) == DENIED
    assert read(guarded, "named", topic) == read(guarded, "root", topic) == ErrorCode.NONE


def test_subscriptions_of_gateways_are_written_by_who_is_allowed_to_by_name(guarded: Broker) -> None:
    make(guarded, rule("User:gateway", Operation.WRITE, GATEWAY))

    assert write(guarded, "broad", GATEWAY) == DENIED
    assert write(guarded, "gateway", GATEWAY) == ErrorCode.NONE


def test_schedules_are_read_by_the_rules_of_any_topic(guarded: Broker) -> None:
    assert read(guarded, "broad", SCHEDULES) == ErrorCode.NONE
    assert read(guarded, "nobody", SCHEDULES) == DENIED
