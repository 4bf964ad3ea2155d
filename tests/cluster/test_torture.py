"""`make torture`: one fault after the other, chosen and timed by chance, on three brokers and three etcd members under load.

HEADRACE_TORTURE_ROUNDS says how many; HEADRACE_TORTURE_SEED plays the same sequence again.  A fifth as many are played once
more on a cluster that is closed: clients sign in by TLS and SCRAM, brokers show certificates, and rules say who may do what.
"""

import os
import random
import threading
import uuid
from pathlib import Path

import pytest

from headrace.testing.etcd import etcd_program
from headrace.testing.histories import Load, ReadAlong, check, create_topic, read_all, wait_for_in_sync
from tests.support.cluster_faults import NETWORK_FAULTS, PROCESS_FAULTS, SMALL_DISK, Stage
from tests.support.secured_load import let_in

ROUNDS = int(os.environ.get("HEADRACE_TORTURE_ROUNDS", "0"))
SEED = int(os.environ.get("HEADRACE_TORTURE_SEED", str(random.randrange(1 << 30))))
PARTITIONS = 6
LONG_PAUSE_S = 20.0
ROUNDS_BETWEEN_CHECKS = 5
SECURED_ONE_IN = 5

pytestmark = [
    pytest.mark.etcd,
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(etcd_program() is None, reason="etcd is not installed (Debian: apt install etcd-server)"),
    pytest.mark.skipif(ROUNDS == 0, reason="`make torture` runs this; tests/cluster/test_faults.py is the short form"),
]


@pytest.mark.timeout(120 + ROUNDS * 120)
@pytest.mark.parametrize("is_secured", [False, True], ids=["open", "closed"])
def test_nothing_is_lost_doubled_or_reordered_whatever_happens(tmp_path: Path, is_secured: bool) -> None:
    chance = random.Random(SEED)
    print(f"HEADRACE_TORTURE_SEED={SEED}")
    rounds = -(-ROUNDS // SECURED_ONE_IN) if is_secured else ROUNDS
    with Stage(tmp_path, is_secured=is_secured) as stage:
        security = let_in(stage.cluster) if is_secured else {}
        for start in range(0, rounds, ROUNDS_BETWEEN_CHECKS):
            topic = f"t-{uuid.uuid4().hex[:8]}"
            create_topic(stage.cluster.bootstrap, topic, PARTITIONS, 3, min_insync_replicas="2")
            torment(stage, topic, chance, min(ROUNDS_BETWEEN_CHECKS, rounds - start), security)


def torment(stage: Stage, topic: str, chance: random.Random, rounds: int, security: dict[str, str]) -> None:
    bootstrap = stage.cluster.bootstrap
    reached = stage.cluster.secure_bootstrap if security else bootstrap
    with (
        ReadAlong(reached, topic, PARTITIONS, security) as along,
        Load(reached, topic, PARTITIONS, security=security) as load,
    ):
        for _ in range(rounds):
            load.wait_for(chance.randrange(1, 50))
            suffer(stage, chance)
            load.wait_for(20, timeout_s=90)
            wait_for_in_sync(bootstrap, topic, 3, timeout_s=90)
    gaps = [load.longest_gap(partition) for partition in range(PARTITIONS)]
    acknowledged = sum(map(len, load.acknowledged.values()))
    print(f"{acknowledged} acknowledged; the longest stall of a partition {max(gaps):.1f} s")
    check(load, read_all(bootstrap, topic, PARTITIONS), along)


def suffer(stage: Stage, chance: random.Random) -> None:
    """One fault, for a moment or for long."""
    faults = PROCESS_FAULTS | (NETWORK_FAULTS if stage.network is not None else {})
    name = chance.choice([*faults, *(["disk full"] if stage.disk is not None else [])])
    victim = SMALL_DISK if name == "disk full" else chance.randrange(1, 4)
    seconds = LONG_PAUSE_S if name == "paused" and chance.random() < 0.5 else chance.choice([0.2, 1.0, 3.0, 8.0])
    print(f"broker {victim}: {name} for {seconds} s", flush=True)
    with stage.disk_full() if name == "disk full" else faults[name](stage, victim):
        threading.Event().wait(seconds)
