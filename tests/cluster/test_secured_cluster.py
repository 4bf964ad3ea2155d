"""A closed cluster of processes: TLS and SCRAM for clients, certificates among brokers, rules; and what a fault leaves of it.

`make torture` does it at length.
"""

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from headrace.testing.etcd import etcd_program
from headrace.testing.histories import Load, ReadAlong, check, create_topic, read_all, wait_for_in_sync
from tests.support.cluster_faults import Stage
from tests.support.secured_load import let_in, let_write_no_more

pytestmark = [
    pytest.mark.etcd,
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(etcd_program() is None, reason="etcd is not installed (Debian: apt install etcd-server)"),
]

PARTITIONS = 3
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


def refusal(bootstrap: str, security: dict[str, str], topic: str, partition: int) -> int | None:
    """The error of a record that somebody writes; None where it is taken."""
    codes: list[int | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "message.timeout.ms": 60_000, **security})
    producer.produce(topic, b"-1", partition=partition, on_delivery=lambda error, _: codes.append(error and error.code()))
    assert producer.flush(90) == 0
    return codes[0]
