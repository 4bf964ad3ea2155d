"""Three brokers and three etcd members as processes: killed, stopped, cut off one way or both, out of disk, under load.

What a producer was told and what a reader was shown is held against what is there in the end.  `make torture` does it at length.
"""

import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from headrace.cli.cluster.moves import broker_statuses
from headrace.client.admin.wire_admin import WireAdmin
from headrace.testing.etcd import etcd_program
from headrace.testing.histories import (
    Load,
    ReadAlong,
    check,
    create_topic,
    leader_of,
    read_all,
    wait_for_in_sync,
    wait_until_out_of_sync,
)
from headrace.testing.network import why_no_network
from tests.support.cluster_faults import SMALL_DISK, Stage

pytestmark = [
    pytest.mark.etcd,
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(etcd_program() is None, reason="etcd is not installed (Debian: apt install etcd-server)"),
]

PARTITIONS = 3
# A follower that is cut off counts as in sync for this long; ten seconds, the default, would only make these tests longer.
SETTINGS = {"replica.lag.time.max.ms": "3000"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("stage"), SETTINGS) as running:
        yield running


@pytest.fixture
def topic(stage: Stage) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    create_topic(stage.cluster.bootstrap, name, PARTITIONS, 3, min_insync_replicas="2")
    return name


def need_network() -> None:
    if (reason := why_no_network()) is not None:
        pytest.skip(reason)


def state_of(stage: Stage, victim: int) -> tuple[str, str]:
    """What `headrace cluster status` says of a broker, asked of another, and why."""
    with WireAdmin(stage.bootstrap_without(victim)) as admin:
        return next((each.state, each.reason) for each in broker_statuses(admin) if each.broker_id == victim)


def endure(stage: Stage, topic: str, victim: int, fault: AbstractContextManager[None], state: str | None = None) -> None:
    """Load before, during and after; the fault lasts until the cluster has noticed it and gone on without the victim."""
    bootstrap, others = stage.cluster.bootstrap, stage.bootstrap_without(victim)
    with ReadAlong(bootstrap, topic, PARTITIONS) as along, Load(bootstrap, topic, PARTITIONS) as load:
        load.wait_for(30)
        with fault:
            wait_until_out_of_sync(others, topic, victim)
            load.wait_for(30)
            if state is not None:
                assert state_of(stage, victim)[0] == state
        wait_for_in_sync(others, topic, 3)
        load.wait_for(30)
    check(load, read_all(bootstrap, topic, PARTITIONS), along)


def test_a_killed_leader(stage: Stage, topic: str) -> None:
    victim = leader_of(stage.cluster.bootstrap, topic)
    endure(stage, topic, victim, stage.killed(victim), state="DOWN")


def test_a_leader_killed_together_with_its_etcd_member(stage: Stage, topic: str) -> None:
    victim = leader_of(stage.cluster.bootstrap, topic)
    endure(stage, topic, victim, stage.machine_killed(victim))


def test_a_leader_that_stops_and_wakes_after_its_session(stage: Stage, topic: str) -> None:
    victim = leader_of(stage.cluster.bootstrap, topic)
    endure(stage, topic, victim, stage.paused(victim))


def test_a_leader_cut_off_from_everybody(stage: Stage, topic: str) -> None:
    need_network()
    victim = leader_of(stage.cluster.bootstrap, topic)
    endure(stage, topic, victim, stage.isolated(victim))


def test_a_leader_that_hears_but_is_not_heard(stage: Stage, topic: str) -> None:
    need_network()
    victim = leader_of(stage.cluster.bootstrap, topic)
    endure(stage, topic, victim, stage.muted(victim))


def test_a_leader_that_is_heard_but_does_not_hear(stage: Stage, topic: str) -> None:
    need_network()
    victim = leader_of(stage.cluster.bootstrap, topic)
    endure(stage, topic, victim, stage.deafened(victim))


def test_two_brokers_that_do_not_reach_each_other(stage: Stage, topic: str) -> None:
    """Both reach etcd by way of the third: each goes on, and drops the other from what it leads."""
    need_network()
    bootstrap, victim = stage.cluster.bootstrap, leader_of(stage.cluster.bootstrap, topic)
    with ReadAlong(bootstrap, topic, PARTITIONS) as along, Load(bootstrap, topic, PARTITIONS) as load:
        load.wait_for(30)
        with stage.parted(victim):
            load.wait_for(60)
        wait_for_in_sync(bootstrap, topic, 3)
        load.wait_for(30)
    check(load, read_all(bootstrap, topic, PARTITIONS), along)


def test_a_broker_whose_disk_is_full(stage: Stage, topic: str) -> None:
    if stage.disk is None:
        pytest.skip("mounting a small disk needs root")
    endure(stage, topic, SMALL_DISK, stage.disk_full(), state="DEGRADED")
