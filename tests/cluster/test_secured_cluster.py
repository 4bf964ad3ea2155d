"""A closed cluster of processes: TLS and SCRAM for clients, certificates among brokers, rules; and what a fault leaves of it.

`make torture` does it at length.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AclBinding, AclBindingFilter, AclOperation, AdminClient

from headrace.client.broker_connection import BrokerConnection, Endpoint
from headrace.client.contact import address_of
from headrace.model.errors import ErrorCode
from headrace.testing.etcd import etcd_program
from headrace.testing.histories import Load, ReadAlong, check, create_topic, read_all, wait_for_in_sync
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.cluster_faults import Stage
from tests.support.secured_load import let_in, let_in_without_rights, let_write_no_more, rule_for
from tests.support.waiting import until

pytestmark = [
    pytest.mark.etcd,
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(etcd_program() is None, reason="etcd is not installed (Debian: apt install etcd-server)"),
]

PARTITIONS = 3
ROUNDS = 5
LEAVER = "leaver"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("secured"), {"replica.lag.time.max.ms": "3000"}, is_secured=True) as running:
        yield running


def test_a_closed_cluster_loses_nothing_when_a_broker_is_killed_and_a_right_that_goes_meanwhile_is_gone_everywhere(
    stage: Stage,
) -> None:
    cluster, topic = stage.cluster, f"t-{uuid.uuid4().hex[:8]}"
    create_topic(cluster.bootstrap, topic, PARTITIONS, 3, min_insync_replicas="2")
    security, leavers = let_in(cluster), let_in(cluster, LEAVER, "the leaver's secret")
    assert [refusal(cluster.secure_bootstrap, leavers, topic, partition) for partition in range(PARTITIONS)] == [None] * 3
    before = dict.fromkeys(range(PARTITIONS), 1)

    with (
        ReadAlong(cluster.secure_bootstrap, topic, PARTITIONS, security) as along,
        Load(cluster.secure_bootstrap, topic, PARTITIONS, security=security) as load,
    ):
        load.wait_for(20)
        with stage.killed(2):
            load.wait_for(20, timeout_s=90)
            let_write_no_more(cluster, LEAVER)
        load.wait_for(20, timeout_s=90)
        wait_for_in_sync(cluster.bootstrap, topic, 3, timeout_s=90)
    found = read_all(cluster.bootstrap, topic, PARTITIONS)

    assert {partition: sum(value < 0 for _, value in records) for partition, records in found.items()} == before
    for history in (found, along.seen):
        for records in history.values():
            records[:] = [record for record in records if record[1] >= 0]
    check(load, found, along)
    for partition in range(PARTITIONS):
        assert refusal(cluster.secure_bootstrap, leavers, topic, partition) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_rule_holds_on_every_broker_within_a_second_of_its_answer(stage: Stage) -> None:
    cluster, topic, name = stage.cluster, f"t-{uuid.uuid4().hex[:8]}", "newcomer"
    create_topic(cluster.bootstrap, topic, 1, 3)
    config = let_in_without_rights(cluster, name, "the newcomer's secret")
    rule = rule_for(name, AclOperation.DESCRIBE)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    took: list[float] = []
    with ExitStack() as stack:
        endpoints = [Endpoint(*address_of(each)) for each in cluster.secure_bootstrap.split(",")]
        brokers = [
            stack.enter_context(closing(BrokerConnection(each, config, client_id="t", timeout_s=30))) for each in endpoints
        ]
        for _ in range(ROUNDS):
            admin.create_acls([rule])[rule].result(30)
            took.append(seconds_until(lambda: [sees(each, topic) for each in brokers] == [True] * 3))
            admin.delete_acls([filter_of(rule)])[filter_of(rule)].result(30)
            took.append(seconds_until(lambda: [sees(each, topic) for each in brokers] == [False] * 3))

    assert len(brokers) == 3
    assert max(took) < 1, took


def sees(broker: BrokerConnection, topic: str) -> bool:
    """Whether somebody may know of a topic, by this broker."""
    (found,) = broker.call(MetadataRequest(topics=(MetadataRequestTopic(name=topic),))).topics
    assert found.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return bool(found.error_code == ErrorCode.NONE)


def seconds_until(holds: Callable[[], bool]) -> float:
    began = time.monotonic()
    until(holds, "the rule holds everywhere", seconds=30)
    return time.monotonic() - began


def filter_of(rule: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        rule.restype, rule.name, rule.resource_pattern_type, rule.principal, rule.host, rule.operation, rule.permission_type
    )


def refusal(bootstrap: str, security: dict[str, str], topic: str, partition: int) -> int | None:
    """The error of a record that somebody writes; None where it is taken."""
    codes: list[int | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "message.timeout.ms": 60_000, **security})
    producer.produce(topic, b"-1", partition=partition, on_delivery=lambda error, _: codes.append(error and error.code()))
    assert producer.flush(90) == 0
    return codes[0]
