"""Files of removed segments and deleted topics stay for `file.delete.delay.ms`, unless the disk is full or the broker starts."""

from pathlib import Path

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_TOPIC_ID
from headrace.testing import Broker
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.integration.test_request_limits import create
from tests.integration.test_settings_have_effects import alter
from tests.support.raw import RawClient, batch, produce
from tests.support.waiting import until


@pytest.mark.parametrize(("delay_ms", "stays"), [(3_600_000, True), (1, False)])
def test_the_files_of_removed_segments_stay_for_file_delete_delay_ms(tmp_path: Path, delay_ms: int, stays: bool) -> None:
    given = {"log.segment.delete.delay.ms": delay_ms, "internal.log.segment.bytes": 200}
    with Broker(data=tmp_path, settings=given) as broker, RawClient(broker.bootstrap) as client:
        create(client, "t", 1)
        for _ in range(5):
            client.call(produce("t", batch(b"x" * 100)), 9)
        partition = DeleteRecordsPartition(partition_index=0, offset=4)
        client.call(DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=(partition,)),), timeout_ms=5000), 2)

        def left() -> bool:
            return bool(list((tmp_path / "t-0").glob("*.deleted")))

        if stays:
            assert left()
        else:
            until(lambda: not left(), "the files stay")
    with Broker(data=tmp_path):
        assert not list((tmp_path / "t-0").glob("*.deleted"))


@pytest.mark.parametrize(("delay_ms", "stays"), [(3_600_000, True), (1, False)])
def test_the_files_of_a_deleted_topic_stay_for_file_delete_delay_ms(tmp_path: Path, delay_ms: int, stays: bool) -> None:
    with Broker(data=tmp_path, settings={"log.segment.delete.delay.ms": delay_ms}) as broker:
        with RawClient(broker.bootstrap) as client:
            create(client, "t", 1)
            client.call(produce("t", batch(b"x")), 9)
            delete(client, "t")
            create(client, "t", 1)

        if stays:
            assert len(files_of(tmp_path, "t")) == 2
        else:
            until(lambda: files_of(tmp_path, "t") == ["t-0"], "the files stay")
    with Broker(data=tmp_path):
        assert files_of(tmp_path, "t") == ["t-0"]


def test_segments_that_wait_for_their_delay_may_go_with_their_topic(tmp_path: Path) -> None:
    given = {"log.segment.delete.delay.ms": 300, "internal.log.segment.bytes": 200}
    with Broker(data=tmp_path, settings=given) as broker, RawClient(broker.bootstrap) as client:
        create(client, "t", 1)
        for _ in range(5):
            client.call(produce("t", batch(b"x" * 100)), 9)
        partition = DeleteRecordsPartition(partition_index=0, offset=4)
        client.call(DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=(partition,)),), timeout_ms=5000), 2)
        delete(client, "t")

        until(lambda: not files_of(tmp_path, "t"), "the files stay")
        assert broker.run(lambda real: real.supervisor.troubles()) == ()


def test_a_full_disk_waits_for_no_delay(tmp_path: Path) -> None:
    given = {"log.segment.delete.delay.ms": 3_600_000, "log.dir.reserved.bytes": 0}
    with Broker(data=tmp_path, settings=given) as broker, RawClient(broker.bootstrap) as client:
        create(client, "t", 1)
        delete(client, "t")
        assert len(files_of(tmp_path, "t")) == 1

        assert alter(client, "log.dir.reserved.bytes", str(2**62)) == 0

        until(lambda: not files_of(tmp_path, "t"), "the files stay")


def files_of(directory: Path, topic: str) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.startswith(f"{topic}-"))


def delete(client: RawClient, topic: str) -> None:
    state = DeleteTopicState(name=topic, topic_id=NO_TOPIC_ID)
    assert client.call(DeleteTopicsRequest(topics=(state,), timeout_ms=5000), 6).responses[0].error_code == ErrorCode.NONE
