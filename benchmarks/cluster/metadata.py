"""What many partitions cost a cluster of three: to create them, to start and stop with them, to lose who leads them all."""

import time
from collections.abc import Callable, Iterator

from benchmarks.broker.target import data_directory
from headrace.client.admin.wire_admin import WireAdmin
from headrace.client.errors import BrokerError, BrokerTimeout
from headrace.model.errors import ErrorCode
from headrace.testing.cluster import ProcessCluster
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

COLUMNS = ("partitions", "create s", "until served s", "list all ms", "stop s", "start s", "failover s", "of which session s")
LEADER = 1
SECONDS_MAX = 200.0
LATEST = -1
SESSION_S = 3.0  # a dead broker is missed after this: `broker.session.timeout.ms`
POLL_S = 0.1  # asking about ten thousand partitions is work for the brokers, too


def rows(quick: bool) -> Iterator[tuple[object, ...]]:
    for count in (1_000,) if quick else (1_000, 10_000):
        with data_directory() as directory, ProcessCluster(directory / "cluster", etcd_members=3) as cluster:
            yield measure(cluster, count)


def measure(cluster: ProcessCluster, count: int) -> tuple[object, ...]:
    assert count > 0
    with WireAdmin(cluster.brokers[2].address, timeout_s=SECONDS_MAX) as admin:
        began = time.monotonic()
        create(admin, "many", count)
        created = time.monotonic() - began
        served = until(lambda: all_served(cluster, count, LEADER), began)
        listed = timed(lambda: admin.metadata(("many",)))
        leader = cluster.brokers[LEADER]
        killed = time.monotonic()
        leader.kill()
        failed_over = until(lambda: all_served(cluster, count, None), killed)
        leader.start()
        leader.wait_until_ready()
        stopped = timed(leader.stop)
        started = time.monotonic()
        leader.start()
        leader.wait_until_ready()
        started = time.monotonic() - started
    return (
        count,
        *(f"{seconds:.2f}" for seconds in (created, served)),
        f"{listed * 1000:.0f}",
        *(f"{seconds:.2f}" for seconds in (stopped, started, failed_over)),
        f"{SESSION_S:.0f}",
    )


def create(admin: WireAdmin, name: str, count: int) -> None:
    """A topic with three replicas of each partition, all led by one broker."""
    others = [broker for broker in (1, 2, 3) if broker != LEADER]
    placed = tuple(
        CreatableReplicaAssignment(partition_index=n, broker_ids=(LEADER, others[n % 2], others[(n + 1) % 2]))
        for n in range(count)
    )
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=placed, configs=())
    reply = admin.call(CreateTopicsRequest(topics=(topic,), timeout_ms=int(SECONDS_MAX * 1000)))
    if reply.topics[0].error_code != ErrorCode.NONE:
        raise SystemExit(f"creating {count} partitions failed: {reply.topics[0].error_message}")


def all_served(cluster: ProcessCluster, count: int, leader: int | None) -> bool:
    """Whether every partition has a leader, one that lives and answers for it."""
    try:
        asked = cluster.brokers[2].address
        with WireAdmin(asked, timeout_s=30) as admin:
            (topic,) = admin.metadata(("many",)).topics
            leaders: dict[int, list[int]] = {}
            for partition in topic.partitions:
                leaders.setdefault(partition.leader_id, []).append(partition.partition_index)
            if sum(map(len, leaders.values())) < count or -1 in leaders or (leader is None and LEADER in leaders):
                return False
            return all(answers(admin, broker, indexes) for broker, indexes in leaders.items())
    except (BrokerError, BrokerTimeout):
        return False


def answers(admin: WireAdmin, broker: int, indexes: list[int]) -> bool:
    wanted = tuple(ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="many", partitions=wanted),))
    reply = admin.call(request, broker=broker)
    return all(partition.error_code == ErrorCode.NONE for topic in reply.topics for partition in topic.partitions)


def until(holds: Callable[[], bool], began: float) -> float:
    """Seconds from a moment on until something holds; infinite when it does not within the time allowed."""
    while not holds():
        if time.monotonic() - began > SECONDS_MAX:
            return float("inf")
        time.sleep(POLL_S)
    return time.monotonic() - began


def timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
