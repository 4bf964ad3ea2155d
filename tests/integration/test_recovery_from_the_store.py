"""A cluster is lost with all its disks: its tiered topics come back from the object store alone, with their offsets."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from headrace.cli.node.recover import recover
from headrace.testing import Broker
from tests.integration.test_fetch_and_produce import append
from tests.integration.test_tiered_storage import TIERED, create, fill, list_offset, part_of, read_all, settings_for
from tests.support.raw import RawClient
from tests.support.waiting import until


def lose_a_cluster(folder: Path, topic: str) -> str:
    """A cluster that had a topic; the folder of the topic in the store."""
    with Broker(data=folder / "lost", settings=settings_for(folder / "store")) as broker:
        with RawClient(broker.bootstrap) as client:
            create(client, topic, local_retention_ms="1", **TIERED)
            fill(client, topic)
        until(lambda: part_of(broker, topic).end_offset >= 11, "all that is closed is uploaded")
        until(lambda: list((folder / "store").rglob("topic.json")), "the store knows what the topic was")
        return part_of(broker, topic).folder.rpartition("/0/")[0]


def test_a_lost_cluster_comes_back_from_the_store_alone(tmp_path: Path, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    lost = lose_a_cluster(tmp_path, topic)

    with Broker(data=tmp_path / "new", settings=settings_for(tmp_path / "store")) as broker:
        recover(source=f"file://{tmp_path / 'store'}", cluster=lost.split("/")[0], yes=True, bootstrap=broker.bootstrap)
        with RawClient(broker.bootstrap) as client:
            with pytest.raises(AssertionError, match="CLUSTER/TOPIC:EPOCH"):
                create(client, "other", headrace_remote_from="nowhere", **TIERED)
            assert list_offset(client, topic, -2)[0] == 0
            assert read_all(client, topic, end=11) == list(range(11))
            assert append(client, topic, b"goes on") == 11
            assert read_all(client, topic) == list(range(12))
            epoch = broker.run(lambda real: real.parts.replicas.find(topic, 0).leader_epoch)
            assert epoch > 0, "it is newer than those of the records"
        settings = broker.run(lambda real: real.image.topics[topic].configs)
        assert settings["headrace.remote.from"] == f"{lost}:{epoch}"

    told = capsys.readouterr()
    assert f"{topic}: recovered (0: 0 to 11)." in told.err + told.out


def test_a_broker_that_lost_its_disk_goes_on_behind_the_store(tmp_path: Path, topic: str) -> None:
    settings = settings_for(tmp_path / "store")
    with Broker(data=tmp_path / "data", settings=settings) as broker, RawClient(broker.bootstrap) as client:
        create(client, topic, local_retention_ms="1", **TIERED)
        fill(client, topic)
        until(lambda: part_of(broker, topic).end_offset >= 11, "all that is closed is uploaded")
        lost = tmp_path / "data" / f"{topic}-0"
    with Broker(data=tmp_path / "data", settings=settings) as broker:
        # The first start after it: the epoch has grown, and from then on an empty directory is one that was lost.
        assert broker.run(lambda real: real.parts.replicas.find(topic, 0).leader_epoch) >= 0
    for path in lost.iterdir():
        path.unlink()
    lost.rmdir()
    with Broker(data=tmp_path / "data", settings=settings) as broker, RawClient(broker.bootstrap) as client:
        until(lambda: broker.run(lambda real: real.parts.replicas.find(topic, 0).is_leader), "it is led again")
        until(lambda: list_offset(client, topic, -1)[0] == 11, "it goes on where the store ends")
        assert read_all(client, topic, end=11) == list(range(11))
        assert append(client, topic, b"goes on") == 11
