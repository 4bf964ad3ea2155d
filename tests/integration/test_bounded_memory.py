"""Memory does not grow with idle connections, with consumers that do not read, or with producers faster than the disk."""

import resource
import socket
import struct
import time
from pathlib import Path

from confluent_kafka import Producer

from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.process import BrokerProcess
from tests.support.raw import RawClient, batch, produce

MIB = 1024 * 1024
API_VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


def test_five_thousand_idle_connections_leave_the_broker_small_and_quick(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 6000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 12_000), hard))
    with BrokerProcess(tmp_path / "data") as broker:
        before = broker.memory_bytes()
        idle = []
        try:
            for _ in range(5000):
                idle.append(socket.create_connection(("127.0.0.1", broker.port), timeout=10))
            with RawClient(broker.bootstrap) as client:
                started = time.monotonic()
                for _ in range(50):
                    client.call(API_VERSIONS, 3)
                elapsed = time.monotonic() - started

            assert broker.memory_bytes() - before < 100 * MIB
            assert elapsed < 2.0
        finally:
            for connection in idle:
                connection.close()


def test_a_consumer_that_never_reads_its_replies_is_not_read_from(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        with RawClient(broker.bootstrap) as client:
            client.call(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), 12)
            for _ in range(60):
                client.call(produce("t", batch(b"x" * 1_000_000)), 9)
        before = broker.memory_bytes()
        greedy = RawClient(broker.bootstrap, timeout=1)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 * MIB)
        fetch = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=50 * MIB, topics=(FetchTopic(topic="t", partitions=(wanted,)),)
        )
        for _ in range(100):
            greedy.send_request(fetch, 12)
        time.sleep(1.0)

        assert broker.memory_bytes() - before < 200 * MIB
        with RawClient(broker.bootstrap) as other:
            assert other.call(API_VERSIONS, 3).error_code == 0
        greedy.socket.close()


def test_half_sent_large_requests_share_a_bounded_room(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", {"queued.max.request.bytes": str(64 * MIB)}) as broker:
        before = broker.memory_bytes()
        clients = [RawClient(broker.bootstrap, timeout=0.2) for _ in range(20)]
        for client in clients:
            try:
                client.send(struct.pack(">i", 50 * MIB) + b"\0" * (20 * MIB))
            except TimeoutError:
                continue

        assert broker.memory_bytes() - before < 120 * MIB
        with RawClient(broker.bootstrap) as other:
            assert other.call(API_VERSIONS, 3).error_code == 0
        for client in clients:
            client.socket.close()


def test_a_producer_faster_than_the_disk_is_slowed_down_not_stored_in_memory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "batch.size": 1_000_000})
        producer.produce("t", b"first")
        producer.flush(10)
        before = broker.memory_bytes()
        payload = b"x" * 10_000
        peak = 0
        for index in range(40_000):
            while True:
                try:
                    producer.produce("t", payload)
                    break
                except BufferError:
                    producer.poll(0.01)
            if index % 2000 == 0:
                peak = max(peak, broker.memory_bytes())

        assert producer.flush(60) == 0
        assert max(peak, broker.memory_bytes()) - before < 150 * MIB
