"""Memory does not grow with idle connections, with consumers that do not read, or with producers faster than the disk."""

import contextlib
import resource
import socket
import struct
import time
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer

from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.process import BrokerProcess
from tests.support.raw import RawClient, ask_until_created, batch, frame, produce
from tests.support.waiting import stays, until

MIB = 1024 * 1024
API_VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


FETCH_50_MIB = FetchRequest(
    max_wait_ms=0,
    min_bytes=1,
    max_bytes=50 * MIB,
    topics=(FetchTopic(topic="t", partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 * MIB),)),),
)


def fill(broker: BrokerProcess, batches: int, size: int = 1_000_000) -> None:
    """Write batches, each with one large record."""
    with RawClient(broker.bootstrap) as client:
        ask_until_created(client, "t")
        for _ in range(batches):
            client.call(produce("t", batch(b"x" * size)), 9)


def peak_bytes(broker: BrokerProcess) -> int:
    """The most resident memory there ever was."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) * 1024


def reader_with_a_small_window(broker: BrokerProcess) -> RawClient:
    """What it does not read stays in the broker and not in its own kernel's buffers."""
    client = RawClient(broker.bootstrap, timeout=30)
    client.socket.close()
    client.socket = socket.socket()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.socket.settimeout(30)
    client.socket.connect(("127.0.0.1", broker.port))
    return client


def send_parts(clients: list[RawClient], whole: bytes, sent: list[int]) -> bool:
    """Send from each what the broker takes now, 64 KiB at most; whether all have sent everything."""
    for index, client in enumerate(clients):
        with contextlib.suppress(BlockingIOError):
            sent[index] += client.socket.send(whole[sent[index] : sent[index] + 65_536])
    return sum(sent) == len(clients) * len(whole)


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
        fill(broker, batches=60)
        before = broker.memory_bytes()
        greedy = RawClient(broker.bootstrap, timeout=1)
        for _ in range(100):
            greedy.send_request(FETCH_50_MIB, 12)

        # One reply, and not a second one before it has left.
        stays(lambda: broker.memory_bytes() - before < 80 * MIB, 1.0)
        with RawClient(broker.bootstrap) as other:
            assert other.call(API_VERSIONS, 3).error_code == 0
        greedy.socket.close()


def test_fifty_readers_that_never_read_share_a_bounded_room_and_give_it_back(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        fill(broker, batches=60)
        before = broker.memory_bytes()
        readers = [RawClient(broker.bootstrap) for _ in range(50)]
        for reader in readers:
            reader.send_request(FETCH_50_MIB, 12)
        with RawClient(broker.bootstrap) as honest:
            until(lambda: broker.memory_bytes() > before + 50 * MIB)
            # Small requests go on, so do writes, and a reader gets a smaller reply.
            assert honest.call(API_VERSIONS, 3).error_code == 0
            assert honest.call(produce("t", batch(b"x" * 1_000_000)), 9).responses[0].partition_responses[0].error_code == 0
            assert len(honest.call(FETCH_50_MIB, 12).responses[0].partitions[0].records) >= 1_000_000

        assert peak_bytes(broker) < 200 * MIB
        for reader in readers:
            reader.socket.close()
        until(lambda: broker.memory_bytes() < before + 20 * MIB)


def test_readers_that_take_nothing_are_cut_when_an_honest_one_waits_for_memory(tmp_path: Path) -> None:
    settings = {
        "headrace.connections.bytes.max": str(16 * MIB),
        "headrace.connection.slow.ms": "1000",
        "message.max.bytes": "10000000",
    }
    with BrokerProcess(tmp_path / "data", settings) as broker:
        fill(broker, batches=3, size=8_000_000)  # more than the kernel would take
        readers = [reader_with_a_small_window(broker) for _ in range(5)]
        for reader in readers:
            reader.send_request(FETCH_50_MIB, 12)
        with RawClient(broker.bootstrap, timeout=30) as honest:
            assert len(honest.call(replace(FETCH_50_MIB, max_wait_ms=30_000), 12).responses[0].partitions[0].records) >= 1_000_000

        assert "it read its replies more slowly than 4096 bytes a second while others waited for memory" in broker.output()
        for reader in readers:
            reader.socket.close()


def test_a_fetch_waits_for_memory_no_longer_than_its_client_waits(tmp_path: Path) -> None:
    settings = {"headrace.connections.bytes.max": str(16 * MIB), "message.max.bytes": "10000000"}
    with BrokerProcess(tmp_path / "data", settings) as broker:
        fill(broker, batches=3, size=8_000_000)
        readers = [reader_with_a_small_window(broker) for _ in range(5)]
        for reader in readers:
            reader.send_request(FETCH_50_MIB, 12)
        with RawClient(broker.bootstrap, timeout=5) as honest:
            started = time.monotonic()
            data = honest.call(replace(FETCH_50_MIB, max_wait_ms=700), 12).responses[0].partitions[0]
            elapsed = time.monotonic() - started

        assert (data.error_code, data.high_watermark, data.records or b"") == (0, 3, b"")
        assert elapsed >= 0.7
        for reader in readers:
            reader.socket.close()


def test_a_slow_reader_is_not_cut_while_nobody_waits(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", {"headrace.connection.slow.ms": "500"}) as broker:
        fill(broker, batches=20)
        reader = reader_with_a_small_window(broker)
        reader.send_request(FETCH_50_MIB, 12)

        stays(lambda: "more slowly" not in broker.output(), 2.0)
        assert len(reader.receive()) > 20_000_000


def test_announced_requests_lock_nobody_out_and_are_cut(tmp_path: Path) -> None:
    settings = {"headrace.connection.slow.ms": "1000"}
    with BrokerProcess(tmp_path / "data", settings) as broker:
        clients = [RawClient(broker.bootstrap, timeout=15) for _ in range(3)]
        # Together 256 MiB, of which 24 bytes come.
        for client, size in zip(clients, (100 * MIB, 100 * MIB, 56 * MIB), strict=True):
            client.send(struct.pack(">i", size) + b"\0" * 8)
        with RawClient(broker.bootstrap, timeout=1) as honest:
            ask_until_created(honest, "t")
            assert honest.call(produce("t", batch(b"x" * 150_000)), 9).responses[0].partition_responses[0].error_code == 0

        assert all(client.is_closed_by_broker() for client in clients)
        assert "it sent a request more slowly than 4096 bytes a second" in broker.output()


def test_large_requests_that_stop_half_way_lock_no_small_one_out_and_are_cut_soon(tmp_path: Path) -> None:
    settings = {"headrace.connections.bytes.max": str(16 * MIB), "headrace.connection.slow.ms": "3000"}
    with BrokerProcess(tmp_path / "data", settings) as broker, RawClient(broker.bootstrap, timeout=2) as honest:
        ask_until_created(honest, "t")
        clients = [RawClient(broker.bootstrap, timeout=0.3) for _ in range(3)]
        for client in clients:
            with contextlib.suppress(TimeoutError):
                client.send(struct.pack(">i", 30 * MIB) + b"\0" * (20 * MIB))
        for _ in range(5):
            assert honest.call(produce("t", batch(b"x" * 150_000)), 9).responses[0].partition_responses[0].error_code == 0

        # The first has the turn and stopped by itself; the others wait for it.
        until(lambda: "while it stopped for 0.9 s amid a large request" in broker.output())
        for client in clients:
            client.socket.close()


def has_ended(client: RawClient) -> bool:
    """Whether the broker has closed the connection by now."""
    client.socket.setblocking(False)
    try:
        return client.socket.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_who_waits_for_memory_amid_a_request_and_sends_nothing_is_cut_without_having_the_turn(tmp_path: Path) -> None:
    settings = {"headrace.connections.bytes.max": str(16 * MIB), "headrace.connection.slow.ms": "1000"}
    with BrokerProcess(tmp_path / "data", settings) as broker:
        with_turn, *waiting = [RawClient(broker.bootstrap, timeout=15) for _ in range(4)]
        with_turn.send(struct.pack(">i", 90 * MIB) + b"\0" * (20 * MIB))
        for client in waiting:
            client.send(struct.pack(">i", 90 * MIB) + b"\0" * 140_000)  # more than half of what a small one may hold

        def are_cut() -> bool:
            # All the while, the one with the turn goes on.
            with_turn.send(b"\0" * 10_000)
            return all(map(has_ended, waiting))

        until(are_cut, "the three that wait are cut", every_s=0.1)

        assert "it sent a request more slowly than" in broker.output()
        assert "amid a large request" not in broker.output()
        with_turn.socket.close()


def test_a_trickle_is_cut_and_what_is_sent_fast_enough_is_not(tmp_path: Path) -> None:
    settings = {"headrace.connection.slow.ms": "1000", "headrace.connection.bytes.per.second.min": "2000"}
    whole = frame(produce("t", batch(b"x" * 30_000)), 9)
    with (
        BrokerProcess(tmp_path / "data", settings) as broker,
        RawClient(broker.bootstrap, timeout=5) as honest,
        RawClient(broker.bootstrap) as trickling,
    ):
        ask_until_created(honest, "t")
        trickling.send(whole[:100])
        for start in range(0, len(whole), 1000):
            honest.send(whole[start : start + 1000])
            with contextlib.suppress(OSError):
                trickling.send(b"\0")
            time.sleep(0.1)

        assert honest.receive()
        assert trickling.is_closed_by_broker()


def test_many_half_sent_requests_all_complete_in_a_small_room(tmp_path: Path) -> None:
    """Together they are four times as large as the memory, so each must get on while the others hold a part of theirs."""
    with BrokerProcess(tmp_path / "data", {"headrace.connections.bytes.max": str(8 * MIB)}) as broker:
        fill(broker, batches=1)
        whole = frame(produce("t", batch(b"x" * 1_000_000)), 9)
        clients = [RawClient(broker.bootstrap, timeout=30) for _ in range(32)]
        for client in clients:
            client.socket.setblocking(False)
        sent = [0] * len(clients)
        until(lambda: send_parts(clients, whole, sent))

        for client in clients:
            client.socket.settimeout(30)
            assert client.receive()
            client.socket.close()


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
