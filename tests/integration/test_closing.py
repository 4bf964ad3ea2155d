"""How a broker stops: when it is asked to, in order, and with many partitions flushed at once."""

import logging
import os
import re
import signal
import threading
from pathlib import Path

import pytest

from headrace.broker.health import step_reports
from headrace.broker.parts import Host
from headrace.host.disk import File, SystemDisk, SystemFile
from headrace.testing import Broker
from tests.integration.test_fetch_and_produce import create
from tests.support.process import BrokerProcess
from tests.support.raw import RawClient, batch, produce

PARTITIONS = 32
LANES_MIN = 8


class Gauge:
    """How many flushes are under way at once.  Each takes a while, or until so many are that no more are asked for."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.sync_s = 0.0
        self.lock = threading.Lock()
        self.enough = threading.Event()

    def begin(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.most >= LANES_MIN:
                self.enough.set()
        self.enough.wait(self.sync_s)

    def end(self) -> None:
        with self.lock:
            self.now -= 1


class GaugedDisk(SystemDisk):
    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge

    def open(self, path: Path, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        gauge = self._gauge

        class GaugedFile(SystemFile):
            def sync(self) -> None:
                gauge.begin()
                super().sync()
                gauge.end()

        return GaugedFile(path, os.open(path, flags, 0o644))


def test_what_is_not_flushed_yet_is_flushed_in_many_lanes_at_the_end(tmp_path: Path) -> None:
    gauge = Gauge()
    broker = Broker(data=tmp_path / "data", host=Host(disk=GaugedDisk(gauge)), settings={"headrace.flush": "os"})
    with broker:
        with RawClient(broker.bootstrap) as client:
            create(client, "t", partitions=PARTITIONS)
            for index in range(PARTITIONS):
                client.call(produce("t", batch(b"x"), partition=index), 9)
        gauge.most, gauge.sync_s = 0, 2.0
        gauge.enough.clear()
        broker.stop()

    assert gauge.most >= LANES_MIN


def test_a_stop_that_waits_for_a_slow_disk_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(step_reports, "QUIET_S", 0.1)
    monkeypatch.setattr(step_reports, "AGAIN_S", 0.1)
    caplog.set_level(logging.INFO)
    gauge = Gauge()
    with Broker(data=tmp_path / "data", host=Host(disk=GaugedDisk(gauge)), settings={"headrace.flush": "os"}) as broker:
        with RawClient(broker.bootstrap) as client:
            create(client, "t")
            client.call(produce("t", batch(b"x")), 9)
        gauge.most, gauge.sync_s = 0, 0.5
        gauge.enough.clear()
        broker.stop()

    told = [line for line in caplog.messages if line.startswith("stopping: ")]
    assert any("records that are not on disk yet: 1, " in line for line in told), told
    assert len(told) >= 3
    assert re.fullmatch(r"stopping: .*, \d+ s so far", told[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_every_signal_that_asks_a_broker_to_end_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    broker = BrokerProcess(tmp_path / "data")
    with broker:
        code = broker.stop(number)

    assert code == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_broker_that_is_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; children inherit it
    try:
        broker = BrokerProcess(tmp_path / "data")
        with broker:
            os.kill(broker.pid, signal.SIGHUP)
            with RawClient(broker.bootstrap) as client:
                create(client, "t")
            assert broker.stop() == 0
    finally:
        signal.signal(signal.SIGHUP, before)
