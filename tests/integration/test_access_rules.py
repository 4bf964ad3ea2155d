"""Rules on real brokers: who makes them, where they hold, and what those see who may little.

Who asks is told here by the client id: what a connection has to do to prove a name is another story."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.model.access.acls import Operation, PatternType, Permission, ResourceType
from headrace.model.access.principals import Subject, user
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode
from headrace.model.settings import SettingError
from headrace.testing import Broker
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headrace.wire.messages.describe_acls import DescribeAclsRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.raw import RawClient, batch, produce
from tests.support.users import take_client_ids_for_users
from tests.support.waiting import until, until_async

ANY = 1
TOPIC = ResourceType.TOPIC
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ROOT = {"authorizer": "acl", "super.users": "User:root"}


@pytest.fixture(autouse=True)
def _client_ids_are_users(monkeypatch: pytest.MonkeyPatch) -> None:
    take_client_ids_for_users(monkeypatch)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings=ROOT) as broker:
        with client(broker, "root") as root:
            topics = tuple(
                CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
                for name in ("orders", "secrets")
            )
            root.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        yield broker


def client(broker: Broker, name: str) -> RawClient:
    return RawClient(broker.bootstrap, client_id=name)


def rule(principal: str, operation: Operation, name: str, **others: Any) -> AclCreation:
    return AclCreation(
        **{
            "principal": principal,
            "operation": operation,
            "resource_name": name,
            "resource_type": TOPIC,
            "host": "*",
            "permission_type": Permission.ALLOW,
            **others,
        }
    )


def make(broker: Broker, *rules: AclCreation) -> None:
    with client(broker, "root") as root:
        made = root.call(CreateAclsRequest(creations=rules), 3)
    assert [each.error_code for each in made.results] == [ErrorCode.NONE] * len(rules)


def everything(principal: str | None = None) -> dict[str, Any]:
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": principal,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }


def asked(*names: str, create: bool = False) -> MetadataRequest:
    return MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=create)


def code_of(broker: Broker, who: str, topic: str = "orders") -> int:
    """What somebody is told about a topic."""
    with client(broker, who) as somebody:
        return int(somebody.call(asked(topic), 9).topics[0].error_code)


# -- settings


def test_nobody_may_anything_where_the_authorizer_is_set_and_no_rule_allows_it(caplog: pytest.LogCaptureFixture) -> None:
    with Broker(settings={"authorizer": "acl"}) as guarded, Broker() as open_to_all:
        assert code_of(guarded, "ann") == DENIED
        assert code_of(open_to_all, "ann") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert caplog.text.count("super.users is empty") == 1


def test_the_authorizer_can_be_set_by_its_name_in_kafka() -> None:
    with Broker(settings={"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}) as guarded:
        assert code_of(guarded, "ann") == DENIED
    with pytest.raises(SettingError, match="is not one of"):
        BrokerConfig({"authorizer.class.name": "com.example.Authorizer"})


def test_super_users_may_everything_and_nobody_else() -> None:
    with Broker(settings={"authorizer": "acl", "super.users": "User:ann;User:bob"}) as guarded:
        assert code_of(guarded, "bob") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code_of(guarded, "eve") == DENIED
    with pytest.raises(SettingError, match=r"super\.users"):
        BrokerConfig({"super.users": "ann"})


def test_what_no_rule_is_about_is_free_where_that_is_set() -> None:
    with Broker(settings={**ROOT, "allow.everyone.if.no.acl.found": True}) as guarded:
        make(guarded, rule("User:ann", Operation.READ, "orders"))

        assert code_of(guarded, "eve", "orders") == DENIED
        assert code_of(guarded, "eve", "bills") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- the APIs of rules


def test_rules_are_made_described_and_removed(broker: Broker) -> None:
    prefixed = rule("Group:ops", Operation.ALL, "log", resource_pattern_type=PatternType.PREFIXED, host="10.0.0.0/8")
    make(broker, rule("User:ann", Operation.READ, "orders"), rule("User:bob", Operation.WRITE, "orders"), prefixed)
    with client(broker, "root") as root:
        found = root.call(DescribeAclsRequest(**everything()), 3)
        one = root.call(DescribeAclsRequest(**everything("User:ann")), 3)
        removed = root.call(DeleteAclsRequest(filters=(DeleteAclsFilter(**everything("User:ann")),)), 3)
        left = root.call(DescribeAclsRequest(**everything()), 3)

    assert [(each.resource_name, each.pattern_type, [acl.principal for acl in each.acls]) for each in found.resources] == [
        ("log", PatternType.PREFIXED, ["Group:ops"]),
        ("orders", PatternType.LITERAL, ["User:ann", "User:bob"]),
    ]
    assert [acl.principal for each in one.resources for acl in each.acls] == ["User:ann"]
    assert [acl.principal for acl in removed.filter_results[0].matching_acls] == ["User:ann"]
    assert [acl.principal for each in left.resources for acl in each.acls] == ["Group:ops", "User:bob"]


@pytest.mark.parametrize(
    "wrong",
    [
        rule("ann", Operation.READ, "orders"),
        rule("User:ann", Operation.ANY, "orders"),
        rule("User:ann", Operation.READ, ""),
        rule("User:ann", Operation.READ, "orders", host="everywhere"),
        rule("User:ann", Operation.READ, "orders", resource_type=99),
        rule("User:ann", Operation.READ, "orders", permission_type=0),
        rule("User:ann", Operation.ALTER, "other-cluster", resource_type=ResourceType.CLUSTER),
    ],
    ids=["principal", "operation", "name", "host", "resource type", "permission", "cluster"],
)
def test_a_rule_that_cannot_be_is_refused_and_the_others_are_made(broker: Broker, wrong: AclCreation) -> None:
    with client(broker, "root") as root:
        made = root.call(CreateAclsRequest(creations=(wrong, rule("User:ann", Operation.READ, "orders"))), 3)

    assert [each.error_code for each in made.results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert made.results[0].error_message
    assert code_of(broker, "ann") == ErrorCode.NONE


def test_without_an_authorizer_there_are_no_rules_to_speak_of() -> None:
    with Broker() as broker, client(broker, "root") as root:
        made = root.call(CreateAclsRequest(creations=(rule("User:ann", Operation.READ, "orders"),)), 3)
        found = root.call(DescribeAclsRequest(**everything()), 3)
        removed = root.call(DeleteAclsRequest(filters=(DeleteAclsFilter(**everything()),)), 3)

        assert made.results[0].error_code == ErrorCode.SECURITY_DISABLED
        assert found.error_code == ErrorCode.SECURITY_DISABLED
        assert removed.filter_results[0].error_code == ErrorCode.SECURITY_DISABLED
        assert not broker.broker or not broker.broker.image.acls


def test_rules_made_on_one_broker_hold_on_every_broker_until_they_are_removed() -> None:
    async def story() -> None:
        settings = {"authorizer": "acl", "super.users": "User:test;User:broker-1;User:broker-2"}
        async with MemoryCluster(2, settings) as cluster:
            await cluster.create_topic("orders", factor=2)
            other = cluster.brokers[2].parts.access_rules.guard

            def may() -> bool:
                assert other.authorizer is not None
                return other.authorizer.allows(Subject(user("ann")), Operation.READ, TOPIC, "orders")

            assert not may()
            await cluster.call(1, CreateAclsRequest(creations=(rule("User:ann", Operation.READ, "orders"),)), 3)
            await until_async(may, "the rule holds on the other broker", seconds=5)
            await cluster.call(1, DeleteAclsRequest(filters=(DeleteAclsFilter(**everything()),)), 3)
            await until_async(lambda: not may(), "it holds there no more", seconds=5)

    play(story)


def test_brokers_replicate_among_themselves_where_they_are_super_users() -> None:
    async def story() -> None:
        settings = {"authorizer": "acl", "super.users": "User:test;User:broker-1;User:broker-2"}
        async with MemoryCluster(2, settings) as cluster:
            await cluster.create_topic("orders", factor=2)
            leader = cluster.image.topics["orders"].partitions[0].leader
            produced = await asyncio.wait_for(cluster.produce(leader, "orders", "a"), 10)
            assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    play(story)


# -- what those see who may little


def test_a_list_of_all_topics_shows_those_that_may_be_described(broker: Broker) -> None:
    make(broker, rule("User:ann", Operation.WRITE, "orders"))
    with client(broker, "ann") as ann:
        listed = ann.call(MetadataRequest(topics=None), 9)
        paged = ann.call(DescribeTopicPartitionsRequest(topics=(), response_partition_limit=10), 0)

    assert [topic.name for topic in listed.topics] == ["orders"]
    assert [topic.name for topic in paged.topics] == ["orders"]


def test_a_pattern_finds_topics_that_may_be_described(broker: Broker) -> None:
    group = rule("User:ann", Operation.READ, "readers", resource_type=ResourceType.GROUP)
    make(broker, rule("User:ann", Operation.DESCRIBE, "orders"), group)
    beat = ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_regex=".*",
        topic_partitions=(),
    )
    with client(broker, "ann") as ann, client(broker, "root") as root:
        root.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("readers",)), 4)
        reply = until(lambda: found if not (found := ann.call(beat, 1)).error_code else None, "the coordinator is there")

    orders = broker.run(lambda real: real.image.topics["orders"].topic_id)
    assert reply is not None
    assert [each.topic_id for each in reply.assignment.topic_partitions] == [orders]


def test_who_may_not_describe_a_topic_does_not_learn_whether_there_is_one(broker: Broker) -> None:
    with client(broker, "ann") as ann:
        answers = [ann.call(asked(name), 9).topics[0] for name in ("secrets", "missing")]
        pages = [
            ann.call(DescribeTopicPartitionsRequest(topics=(TopicRequest(name=name),), response_partition_limit=10), 0).topics[0]
            for name in ("secrets", "missing")
        ]

    for there, missing in (answers, pages):
        assert there.error_code == missing.error_code == DENIED
        assert (there.topic_id, there.partitions) == (missing.topic_id, missing.partitions)


def test_a_topic_is_created_by_naming_it_only_for_those_who_may(broker: Broker) -> None:
    make(
        broker,
        rule("User:*", Operation.DESCRIBE, "*"),
        rule("User:bob", Operation.CREATE, "bills", resource_pattern_type=PatternType.PREFIXED),
    )
    with client(broker, "ann") as ann, client(broker, "bob") as bob:
        assert ann.call(asked("bills-1", create=True), 9).topics[0].error_code == DENIED
        until(lambda: not bob.call(asked("bills-2", create=True), 9).topics[0].error_code, "bob's topic is there")
        assert ann.call(asked("bills-1"), 9).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_authorized_operations_are_those_that_rules_allow(broker: Broker) -> None:
    make(broker, rule("User:ann", Operation.WRITE, "orders"))
    request = MetadataRequest(topics=(MetadataRequestTopic(name="orders"),), include_topic_authorized_operations=True)
    with client(broker, "ann") as ann:
        bits = ann.call(request, 9).topics[0].topic_authorized_operations

    assert bits == 1 << Operation.WRITE | 1 << Operation.DESCRIBE


@pytest.mark.parametrize(("kind", "name"), [(4, "1"), (8, "1"), (16, "slow-ones")], ids=["broker", "logger", "client metrics"])
def test_all_settings_that_are_no_topics_or_groups_need_a_right_to_the_cluster(broker: Broker, kind: int, name: str) -> None:
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    changed = AlterConfigsResource(resource_type=kind, resource_name=name, configs=())

    def codes(who: str) -> tuple[int, int]:
        with client(broker, who) as somebody:
            shown = somebody.call(DescribeConfigsRequest(resources=(wanted,)), 4).results[0]
            altered = somebody.call(IncrementalAlterConfigsRequest(resources=(changed,), validate_only=True), 1).responses[0]
        return int(shown.error_code), int(altered.error_code)

    make(broker, rule("User:ann", Operation.ALL, "*"))
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert codes("ann") == (denied, denied)
    assert denied not in codes("root")


def test_a_fetch_that_waits_ends_with_the_right_to_read(broker: Broker) -> None:
    make(broker, rule("User:ann", Operation.READ, "orders"))
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        max_wait_ms=20_000, min_bytes=1, max_bytes=1 << 20, topics=(FetchTopic(topic="orders", partitions=(wanted,)),)
    )
    with client(broker, "ann") as ann, client(broker, "root") as root:
        ann.send_request(fetch, 12)
        until(lambda: _is_waited_for(broker), "the fetch waits")
        root.call(DeleteAclsRequest(filters=(DeleteAclsFilter(**everything()),)), 3)
        root.call(produce("orders", batch(b"secret")), 9)
        reply = ann.receive()

    assert b"secret" not in reply
    assert DENIED.to_bytes(2, "big") in reply


def _is_waited_for(broker: Broker) -> bool:
    assert broker.broker is not None
    return bool(broker.broker.parts.replicas.find("orders", 0).readers)
