"""Dead letters of a share group on a broker: who gets them, and what the command for dead letters makes of them."""

from collections.abc import Iterator

import pytest

from headrace.client.deadletter.redrive import Parked, parked
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.raw import RawClient
from tests.support.share_member import ShareMember, set_of_group
from tests.support.share_requests import REJECT

PREFIX = {"errors.deadletterqueue.topic.name.prefix": "dead-"}
FEW = {"share.coordinator.state.topic.num.partitions": "2"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=FEW | PREFIX) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap) as client:
        yield client


def create(client: RawClient, name: str, **settings: str) -> None:
    configs = tuple(CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in settings.items())
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=configs)
    assert client.call(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5).topics[0].error_code == ErrorCode.NONE


def reject_one(client: RawClient, group: str, topic: str) -> None:
    member = ShareMember(client, group, topic).join()
    member.produce(b"bad")
    assert member.take() == [(0, 0, 1)]
    assert member.say(0, 0, REJECT) == ErrorCode.NONE


def end_of(client: RawClient, topic: str) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(wanted,)),))
    return int(client.call(request, 7).topics[0].partitions[0].offset)


def test_dead_letters_go_only_to_topics_that_are_named_for_it(client: RawClient) -> None:
    for name in ("orders", "__audit", "dlq.orders", "dead-/"):
        assert set_of_group(client, "named", errors_deadletterqueue_topic_name=name) == ErrorCode.INVALID_CONFIG
    assert set_of_group(client, "named", errors_deadletterqueue_topic_name="dead-orders") == ErrorCode.NONE


def test_a_topic_gets_no_letters_that_does_not_allow_it(client: RawClient) -> None:
    create(client, "dead-closed", errors_deadletterqueue_group_enable="false")
    create(client, "dead-open", errors_deadletterqueue_group_enable="true")
    for name in ("closed", "open"):
        assert set_of_group(client, name, errors_deadletterqueue_topic_name=f"dead-{name}") == ErrorCode.NONE
        reject_one(client, name, f"jobs-{name}")

    assert (end_of(client, "dead-closed"), end_of(client, "dead-open")) == (0, 1)


def test_the_command_for_dead_letters_reads_them_as_it_reads_the_sdks(broker: Broker, client: RawClient) -> None:
    create(client, "dead-jobs", errors_deadletterqueue_group_enable="true")
    settings = {"errors_deadletterqueue_topic_name": "dead-jobs", "errors_deadletterqueue_copy_record_enable": "true"}
    assert set_of_group(client, "shown", **settings) == ErrorCode.NONE
    reject_one(client, "shown", "jobs-shown")

    (letter,) = list(parked(broker.bootstrap, "dead-jobs"))
    assert isinstance(letter, Parked)
    assert (letter.origin_topic, letter.origin_offset, letter.group) == ("jobs-shown", 0, "shown")
    assert (letter.cause, letter.attempts, letter.record.value) == ("rejected", 1, b"bad")


@pytest.mark.parametrize(("largest", "letters"), [("1200", 1), ("50", 0)])
def test_a_letter_that_its_topic_does_not_take_goes_without_the_record_or_is_given_up(
    broker: Broker, client: RawClient, largest: str, letters: int
) -> None:
    name = f"dead-small-{largest}"
    create(client, name, errors_deadletterqueue_group_enable="true", max_message_bytes=largest)
    settings = {"errors_deadletterqueue_topic_name": name, "errors_deadletterqueue_copy_record_enable": "true"}
    assert set_of_group(client, name, **settings) == ErrorCode.NONE
    member = ShareMember(client, name, f"jobs-{largest}").join()
    member.produce(b"x" * 5_000)
    assert member.take() == [(0, 0, 1)]
    assert member.say(0, 0, REJECT) == ErrorCode.NONE

    found = list(parked(broker.bootstrap, name))
    assert len(found) == letters
    assert [(each.origin_offset, each.record.value, each.record.header("headrace-dead-letter-truncated")) for each in found] == [
        (0, None, b"true")
    ] * letters
    assert member.take() == []
