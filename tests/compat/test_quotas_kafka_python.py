"""Quotas as kafka-python meets them: it waits as long as it is told, whatever it asked for."""

import time

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from headrace.client.admin.wire_admin import WireAdmin
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

RECORD = bytes(10_000)


def limit(broker: Broker, quota: str, value: float) -> None:
    """For everybody who has no quota of their own."""
    entry = EntryData(
        entity=(EntityData(entity_type="client-id", entity_name=None),), ops=(OpData(key=quota, value=value, remove=False),)
    )
    with WireAdmin(broker.bootstrap) as admin:
        reply = admin.call(AlterClientQuotasRequest(entries=(entry,), validate_only=False))
    assert reply.entries[0].error_code == ErrorCode.NONE, reply


def test_bytes_in_and_out_are_held_to_their_rates(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker:
        limit(broker, "producer_byte_rate", 150_000)
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, client_id="py", batch_size=0)
        began = time.monotonic()
        for _ in range(40):
            producer.send("t", RECORD).get(30)
        written = time.monotonic() - began
        producer.close()

        limit(broker, "consumer_byte_rate", 150_000)
        consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap, client_id="py", auto_offset_reset="earliest", max_partition_fetch_bytes=50_000
        )
        consumer.assign([TopicPartition("t", 0)])
        began, read = time.monotonic(), 0
        while read < 40:
            read += sum(map(len, consumer.poll(500).values()))
            assert time.monotonic() - began < 30
        fetched = time.monotonic() - began
        consumer.close()

    # 400 kB at 150 kB/s, the first second's worth for free.
    assert written > 1.2
    assert fetched > 1.2
    assert "ProduceResponse throttled by broker" in caplog.text
    assert "FetchResponse throttled by broker" in caplog.text
