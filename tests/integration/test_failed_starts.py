"""A start that fails leaves everything as it was, and one that is given up ends soon."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.broker.app import Broker as RealBroker
from headrace.broker.health.health import Phase
from headrace.broker.parts import Host
from headrace.host.entropy import Entropy
from headrace.log.durability.checkpoints import CLEAN_SHUTDOWN
from headrace.metadata.memory import MemoryStore
from headrace.metadata.store import MetadataStore, StoreUnavailable
from headrace.model.broker_settings import BrokerConfig
from headrace.testing import Broker
from tests.integration.memory_cluster import SharedStore
from tests.integration.test_fetch_and_produce import append, create
from tests.support.process import free_port
from tests.support.raw import RawClient

BATCHES = 300
# A broker whose recovery takes a tenth of a second for each batch, and says when it has begun.
SLOW_RECOVERY = """
import sys, time
from headrace.log.recovery import recovery

class Slow(recovery.Scanner):
    def __iter__(self):
        for found in super().__iter__():
            print("recovering", flush=True)
            time.sleep(0.1)
            yield found

recovery.Scanner = Slow
from headrace.cli.main import main
sys.exit(main())
"""


def filled(data: Path) -> Broker:
    """A broker with something in its log, which has not been stopped."""
    broker = Broker(data=data, settings={"headrace.flush": "os"})
    broker.start()
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
        for _ in range(BATCHES):
            append(client, "t", b"x")
    return broker


def test_a_start_that_fails_unlocks_the_directory_and_a_clean_end_before_it_stays_one(tmp_path: Path) -> None:
    filled(tmp_path / "data").stop()
    mark = tmp_path / "data" / CLEAN_SHUTDOWN
    assert mark.exists()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="address already in use"):
        Broker(data=tmp_path / "data", port=taken.getsockname()[1]).start()

    assert mark.exists()
    with Broker(data=tmp_path / "data") as again:
        assert again.run(lambda broker: broker.parts.replicas.find("t", 0).log.end_offset) == BATCHES
    assert mark.exists()


class StingyStore(SharedStore):
    """Refuses leases: a broker gets as far as that."""

    async def grant_lease(self, ttl_s: float) -> int:
        raise StoreUnavailable("no leases today")


def test_a_start_that_fails_ends_all_that_it_began(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()

        async def open_store(config: BrokerConfig, entropy: Entropy) -> MetadataStore:
            return StingyStore(store)

        port = free_port()
        config = BrokerConfig({"log.dirs": str(tmp_path / "data"), "listeners": f"127.0.0.1:{port}"})
        before = asyncio.all_tasks()
        for _ in range(2):
            broker = RealBroker(config, Host(open_store=open_store))
            with pytest.raises(StoreUnavailable):
                await broker.start()
            assert broker.phase is Phase.STOPPING
            assert asyncio.all_tasks() == before

    asyncio.run(story())


def test_a_start_that_is_given_up_closes_what_it_had_opened(tmp_path: Path) -> None:
    filled(tmp_path / "data").stop()

    async def story() -> None:
        config = BrokerConfig({"log.dirs": str(tmp_path / "data"), "listeners": "127.0.0.1:0"})
        broker = RealBroker(config)
        starting = asyncio.ensure_future(broker.start())
        while not hasattr(broker, "parts") or not broker.parts.replicas.of_topic("t"):
            await asyncio.sleep(0)
        broker.give_up_start()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(story())
    assert (tmp_path / "data" / CLEAN_SHUTDOWN).exists()
    with Broker(data=tmp_path / "data") as again:
        assert again.run(lambda broker: broker.parts.replicas.find("t", 0).log.end_offset) == BATCHES


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_recovery_ends_the_broker_soon_and_the_next_start_recovers_all(
    tmp_path: Path, number: signal.Signals
) -> None:
    filled(tmp_path / "data").abandon()
    arguments = ["serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_RECOVERY, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "recovering\n"
        process.send_signal(number)
        # It would take half a minute.
        _, errors = process.communicate(timeout=15)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "the broker was stopped before it finished starting" in errors
    assert not (tmp_path / "data" / CLEAN_SHUTDOWN).exists()
    with Broker(data=tmp_path / "data") as again:
        assert again.run(lambda broker: broker.parts.replicas.find("t", 0).log.end_offset) == BATCHES
