"""What `headrace cluster status` says of a broker whose disk is slow, or gone."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.parts import Host
from headrace.cli.cluster.moves import BrokerStatus, broker_statuses
from headrace.client.admin.wire_admin import WireAdmin
from headrace.host.disk import File, SystemDisk, SystemFile
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from tests.integration.test_fetch_and_produce import append, create
from tests.support.raw import RawClient, batch, produce
from tests.support.waiting import until


class SluggishFile(SystemFile):
    def sync(self) -> None:
        time.sleep(0.03)
        super().sync()


class SluggishDisk(SystemDisk):
    def open(self, path: Path, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SluggishFile(path, os.open(path, flags, 0o644))


def status(broker: Broker) -> BrokerStatus:
    with WireAdmin(broker.bootstrap) as admin:
        (found,) = broker_statuses(admin)
        return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data") as running:
        yield running


def test_a_broker_whose_disk_is_well_is_healthy(broker: Broker) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
        for _ in range(20):
            append(client, "t", b"x")

    assert (status(broker).state, status(broker).reason) == ("HEALTHY", "")


def test_a_broker_whose_flushes_are_slow_is_degraded_and_says_by_how_much(tmp_path: Path) -> None:
    host, settings = Host(disk=SluggishDisk()), {"headrace.disk.slow.ms": "20"}
    with Broker(data=tmp_path / "data", host=host, settings=settings) as broker:
        with RawClient(broker.bootstrap) as client:
            create(client, "t")
            for _ in range(20):
                append(client, "t", b"x")
        found = status(broker)

    assert found.state == "DEGRADED"
    assert "slow disk" in found.reason
    assert "20 is the limit" in found.reason


def test_a_broker_whose_data_directory_is_gone_is_degraded_and_says_which(broker: Broker, tmp_path: Path) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
        append(client, "t", b"x")
        (tmp_path / "data").rename(tmp_path / "elsewhere")
        until(lambda: status(broker).state != "HEALTHY")
        found = status(broker)
        refused = client.call(produce("t", batch(b"new")), 9).responses[0].partition_responses[0].error_code

    assert found.state == "DEGRADED"
    assert found.reason.endswith(f"the log directory is gone: {tmp_path / 'data'}")
    assert refused == ErrorCode.KAFKA_STORAGE_ERROR
