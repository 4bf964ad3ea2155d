"""Metrics of records: what is written, read, kept, waited for and delivered late."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace import Admin
from headrace.broker.cluster.peers import PeerUnreachable
from headrace.broker.delaying.delivering import Outlet
from headrace.model.errors import ErrorCode
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.testing import Broker
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from tests.support.metrics import PRODUCE_VERSION, Watch, fetch, write
from tests.support.raw import RawClient, ask_until_created, batch, frame, produce
from tests.support.waiting import until


def test_records_that_go_in_and_out(broker: Broker, client: RawClient, topic: str) -> None:
    watch, records = Watch(broker), batch(b"one", b"two", b"three")
    assert write(client, topic, records) is ErrorCode.NONE
    client.call(fetch(topic, 1), 12)

    assert watch.moved("headrace_produced_records_total") == 3
    assert watch.moved("headrace_produced_bytes_total") == len(records)
    assert watch.moved("headrace_consumed_records_total") == 2
    assert watch.moved("headrace_consumed_bytes_total") == len(records)
    assert watch.moved("headrace_log_size_bytes") == len(records)
    assert watch.moved("headrace_batch_size_bytes" + "_sum") == len(records)
    assert watch.moved("headrace_batch_records" + "_bucket", le="4.0") == 1
    one = {"topic": topic, "partition": 0}
    assert watch.moved("headrace_partition_produced_records_total", **one) == 3
    assert watch.moved("headrace_partition_produced_bytes_total", **one) == len(records)
    assert watch.moved("headrace_partition_consumed_records_total", **one) == 2
    assert watch.moved("headrace_partition_consumed_bytes_total", **one) == len(records)
    assert watch.moved("headrace_partition_high_watermark", **one) == 3
    assert watch.moved("headrace_partition_end_offset", **one) == 3
    assert watch.moved("headrace_partition_size_bytes", **one) == len(records)


def test_what_deleted_topics_did_stays_counted(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    write(client, topic, batch(b"one"))
    assert watch.moved("headrace_produced_records_total") == 1
    client.call(DeleteTopicsRequest(topic_names=(topic,), timeout_ms=5000), 4)
    until(lambda: watch.now("headrace_partition_end_offset", topic=topic) == 0)

    assert watch.moved("headrace_produced_records_total") == 1


def test_segments_and_where_a_log_begins(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    other = f"{topic}-2"
    ask_until_created(client, other)
    write(client, topic, batch(b"one", b"two"))
    broker.run(lambda real: real.parts.replicas.find(topic, 0).log.delete_before(1))

    assert watch.moved("headrace_partition_start_offset", topic=topic) == 1
    assert watch.moved("headrace_log_segments") == 1
    assert watch.moved("headrace_partition_segments", topic=other) == 1


def test_a_batch_that_is_sent_twice(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    records = batch(b"one", producer_id=7, producer_epoch=0, base_sequence=0)
    assert write(client, topic, records) is write(client, topic, records) is ErrorCode.NONE

    assert watch.moved("headrace_duplicate_batches_total") == 1
    assert watch.moved("headrace_produced_records_total") == 1


def test_a_batch_that_is_not_what_its_checksum_says(broker: Broker, client: RawClient, topic: str) -> None:
    watch, records = Watch(broker), bytearray(batch(b"one"))
    records[-2] ^= 1
    assert write(client, topic, bytes(records)) is ErrorCode.CORRUPT_MESSAGE

    assert watch.moved("headrace_corrupt_batches_total", where="produce") == 1


def test_who_waits_for_an_append(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    broker.run(lambda real: setattr(real.parts.replicas.find(topic, 0), "advance", lambda: None))
    client.send(frame(produce(topic, batch(b"one")), PRODUCE_VERSION))
    until(lambda: watch.moved("headrace_appends_waiting", **{"for": "replicas"}) == 1)

    def go_on(real: Any) -> None:
        partition = real.parts.replicas.find(topic, 0)
        del partition.advance
        partition.advance()

    broker.run(go_on)
    client.receive()
    assert watch.moved("headrace_appends_waiting") == 0


def test_delayed_records(broker: Broker, client: RawClient) -> None:
    with Admin(bootstrap=broker.bootstrap) as admin:
        admin.create_topic("delayed", settings={"headrace.delay.enable": "true"})
    watch, due_ms = Watch(broker), broker.clock.wall_ms() + 60_000
    later = Record(0, 1, None, b"x", (("headrace-deliver-at", b"%d" % due_ms),))
    assert write(client, "delayed", build_batch([later, later])) is ErrorCode.NONE

    assert watch.moved("headrace_delayed_records") == 2
    assert watch.now("headrace_delayed_records_by_topic", topic="delayed") == 2
    assert watch.now("headrace_delayed_next_due_timestamp_seconds") == due_ms / 1000
    assert watch.now("headrace_delayed_overdue_seconds") == 0
    with held_up(broker):
        broker.clock.advance(minutes=2)
        assert watch.now("headrace_delayed_overdue_seconds") >= 60
    until(lambda: watch.moved("headrace_delayed_delivered_total") == 2)
    assert watch.moved("headrace_delayed_late_seconds" + "_count") == 2
    assert watch.moved("headrace_delayed_late_seconds" + "_sum") >= 120


@contextmanager
def held_up(broker: Broker) -> Iterator[None]:
    """Nothing that is due is delivered for a while."""

    async def wait(self: Outlet, target: object, batch: bytes) -> None:
        raise PeerUnreachable("held up")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Outlet, "send", wait)
        yield
