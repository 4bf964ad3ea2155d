"""Rules as other people's clients make them, and what they say to those whom no rule allows."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import admin as kafka_python

from headrace.testing import Broker
from tests.support.users import take_client_ids_for_users

ANY_RULE = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    take_client_ids_for_users(monkeypatch)
    with Broker(settings={"authorizer": "acl", "super.users": "User:root"}) as broker:
        admin = as_root(broker)
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(10)
        yield broker


def as_root(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "client.id": "root"})


def binding(user: str, operation: AclOperation, name: str, kind: ResourceType = ResourceType.TOPIC) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def allow(broker: Broker, *bindings: AclBinding) -> None:
    admin = as_root(broker)
    for made in admin.create_acls(list(bindings)).values():
        made.result(10)


def test_confluent_kafka_makes_describes_and_removes_rules(broker: Broker) -> None:
    admin = as_root(broker)
    read, write = binding("ann", AclOperation.READ, "orders"), binding("bob", AclOperation.WRITE, "orders")
    allow(broker, read, write)

    found = admin.describe_acls(ANY_RULE).result(10)
    only_ann = AclBindingFilter(
        ResourceType.TOPIC, "orders", ResourcePatternType.MATCH, "User:ann", None, AclOperation.ANY, AclPermissionType.ANY
    )
    removed = next(iter(admin.delete_acls([only_ann]).values())).result(10)

    assert set(found) == {read, write}
    assert removed == [read]
    assert admin.describe_acls(ANY_RULE).result(10) == [write]


def test_confluent_kafka_is_told_where_nothing_is_guarded_and_where_it_may_not_administer(broker: Broker) -> None:
    with Broker() as open_to_all:
        root = as_root(open_to_all)
        with pytest.raises(KafkaException) as disabled:
            next(iter(root.create_acls([binding("ann", AclOperation.READ, "orders")]).values())).result(10)
    ann = AdminClient({"bootstrap.servers": broker.bootstrap, "client.id": "ann"})
    with pytest.raises(KafkaException) as denied:
        next(iter(ann.create_acls([binding("ann", AclOperation.READ, "orders")]).values())).result(10)

    assert disabled.value.args[0].code() == KafkaError.SECURITY_DISABLED
    assert denied.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_kafka_python_makes_describes_and_removes_rules(broker: Broker) -> None:
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=broker.bootstrap, client_id="root")
    try:
        rule = kafka_python.ACL(
            "User:ann",
            "10.0.0.0/8",
            kafka_python.ACLOperation.WRITE,
            kafka_python.ACLPermissionType.DENY,
            kafka_python.ResourcePattern(
                kafka_python.ResourceType.TOPIC, "orders-", kafka_python.ACLResourcePatternType.PREFIXED
            ),
        )
        wanted = kafka_python.ACLFilter(
            "User:ann",
            None,
            kafka_python.ACLOperation.ANY,
            kafka_python.ACLPermissionType.ANY,
            kafka_python.ResourcePatternFilter(kafka_python.ResourceType.ANY, None, kafka_python.ACLResourcePatternType.ANY),
        )
        made = admin.create_acls([rule])
        found, _ = admin.describe_acls(wanted)
        removed = admin.delete_acls([wanted])
        left, _ = admin.describe_acls(wanted)
    finally:
        admin.close()

    assert (made["succeeded"], made["failed"]) == ([rule], [])
    assert found == [rule]
    assert [each for _, matches, _ in removed for each in matches] == [rule]
    assert left == []


def produced(broker: Broker, user: str, **settings: object) -> KafkaError | None:
    """What became of one record."""
    outcome: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": user, "message.timeout.ms": 5000, **settings})
    producer.produce("orders", b"value", on_delivery=lambda error, message: outcome.append(error))
    producer.flush(15)
    return outcome[0]


def test_a_producer_needs_to_write_and_an_idempotent_one_no_more(broker: Broker) -> None:
    allow(broker, binding("eve", AclOperation.DESCRIBE, "orders"), binding("ann", AclOperation.WRITE, "orders"))

    refused = produced(broker, "eve")

    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert produced(broker, "ann") is None
    assert produced(broker, "ann", **{"enable.idempotence": True}) is None


def test_a_transactional_producer_needs_its_id_too(broker: Broker) -> None:
    allow(
        broker,
        binding("ann", AclOperation.WRITE, "orders"),
        binding("ann", AclOperation.WRITE, "loads", ResourceType.TRANSACTIONAL_ID),
    )
    others = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "ann", "transactional.id": "other"})
    with pytest.raises(KafkaException) as refused:
        others.init_transactions(10)
    own = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "ann", "transactional.id": "loads"})
    own.init_transactions(10)
    own.begin_transaction()
    own.produce("orders", b"value")
    own.commit_transaction(10)

    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_consumer_needs_to_read_its_topics_and_its_group(broker: Broker) -> None:
    allow(
        broker,
        binding("ann", AclOperation.WRITE, "orders"),
        *(binding(user, AclOperation.READ, "orders") for user in ("bob", "eve")),
        binding("bob", AclOperation.READ, "readers", ResourceType.GROUP),
    )
    assert produced(broker, "ann") is None

    assert read(broker, "bob") == (b"value", None)
    assert read(broker, "eve") == (None, KafkaError.GROUP_AUTHORIZATION_FAILED)


def read(broker: Broker, user: str) -> tuple[bytes | None, int | None]:
    """The first record, or the first error."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "client.id": user, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["orders"])
        message = consumer.poll(15)
        assert message is not None
        error = message.error()
        return (message.value(), None) if error is None else (None, error.code())
    finally:
        consumer.close()
