"""A request that waits ends with a reply or with its connection, whatever happens to it, and holds nothing it does not need."""

import asyncio
import logging
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.broker.app import Broker as RealBroker
from headrace.broker.fetching import fetch as fetching
from headrace.broker.network.connection import Connection
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.partitions.partition import Partition
from headrace.host.disk import Buffer
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.raw import RawClient, ask_until_created, batch, produce
from tests.support.waiting import until

API_VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(memory=False) as running:
        with RawClient(running.bootstrap) as client:
            ask_until_created(client, "t")
        yield running


def long_poll(max_wait_ms: int = 60_000) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1024)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(wanted,)),))


def partition_of(real: RealBroker) -> Partition:
    return real.parts.replicas.find("t", 0)


def wait_until(broker: Broker, holds: Callable[[RealBroker], bool]) -> None:
    until(lambda: broker.run(holds))


async def never_ends() -> None:
    await asyncio.Event().wait()


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a defect of the broker")


def the_defect_is_logged(caplog: pytest.LogCaptureFixture) -> bool:
    return any("a defect of the broker" in str(record.exc_info) for record in caplog.records)


# -- whatever happens in a started request


def test_a_fetch_that_fails_when_it_is_woken_ends_its_connection(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with RawClient(broker.bootstrap) as waiting, RawClient(broker.bootstrap) as producer:
        waiting.send_request(long_poll(), 12)
        wait_until(broker, lambda real: bool(partition_of(real).readers))
        monkeypatch.setattr(fetching, "read_all", fails)
        producer.call(produce("t", batch(b"x")), 9)

        assert waiting.is_closed_by_broker()
        assert the_defect_is_logged(caplog)
        wait_until(broker, lambda real: not partition_of(real).readers)


def test_a_fetch_that_fails_when_its_time_is_over_ends_its_connection(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with RawClient(broker.bootstrap) as waiting:
        waiting.send_request(long_poll(max_wait_ms=500), 12)
        wait_until(broker, lambda real: bool(partition_of(real).readers))
        monkeypatch.setattr(fetching, "read_all", fails)

        assert waiting.is_closed_by_broker()
        assert the_defect_is_logged(caplog)


def test_a_fetch_that_fails_while_it_reads_from_a_cold_disk_ends_its_connection(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails_later(*_: Any) -> None:
        fails()

    monkeypatch.setattr(fetching, "warm_up", fails_later)
    monkeypatch.setattr(fetching, "cold_of", lambda found: [(partition, wanted) for wanted, partition, _ in found[0][1]])
    with RawClient(broker.bootstrap) as reader:
        reader.send_request(long_poll(), 12)

        assert reader.is_closed_by_broker()
        assert the_defect_is_logged(caplog)


def test_a_write_that_fails_when_it_becomes_durable_ends_its_connection_and_nobody_elses(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from headrace.broker.handlers import produce as produce_handler

    with RawClient(broker.bootstrap) as client, RawClient(broker.bootstrap) as other:
        monkeypatch.setattr(produce_handler._Produce, "_durable", fails)
        client.send_request(produce("t", batch(b"x")), 9)
        assert client.is_closed_by_broker()
        assert the_defect_is_logged(caplog)
        monkeypatch.undo()

        assert other.call(produce("t", batch(b"x")), 9).responses[0].partition_responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_request_whose_task_is_cancelled_ends_its_connection(broker: Broker, has_begun: bool) -> None:
    async def begin_and_cancel() -> None:
        assert broker.broker is not None
        (connection,) = broker.broker.server.connections
        task = broker.broker.parts.request_tasks.run(never_ends(), PendingReply(connection))
        if has_begun:
            await asyncio.sleep(0)
        task.cancel()

    wait_until(broker, lambda real: not real.server.connections)
    with RawClient(broker.bootstrap) as client:
        client.call(API_VERSIONS, 3)
        broker.call(begin_and_cancel())

        assert client.is_closed_by_broker()


def test_whoever_goes_away_is_not_waited_for(broker: Broker) -> None:
    """A client may ask to wait for weeks, go, and come again."""
    for _ in range(3):
        with RawClient(broker.bootstrap) as client:
            client.send_request(long_poll(max_wait_ms=2**31 - 1), 12)
            wait_until(broker, lambda real: bool(partition_of(real).readers))
        wait_until(broker, lambda real: not partition_of(real).readers)

    assert broker.run(lambda real: real.server.memory.held) == 0


# -- what a write holds


@pytest.fixture
def nothing_is_flushed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.run(lambda real: monkeypatch.setattr(real.parts.flusher, "request", lambda partition: None))


def slow_write(size: int = 500_000, timeout_ms: int = 60_000) -> Any:
    request = produce("t", batch(b"x" * size))
    request.timeout_ms = timeout_ms
    return request


def watch_frames(broker: Broker) -> "list[weakref.ref[Any]]":
    """Of every frame that arrives, whether it is still held by anybody."""
    frames: list[weakref.ref[Any]] = []

    def watch(real: RealBroker) -> None:
        start = real.server.start

        def started(frame: Buffer, connection: Connection, reply: PendingReply) -> None:
            if isinstance(frame, memoryview):
                frames.append(weakref.ref(frame))
            start(frame, connection, reply)

        real.server.start = started

    broker.run(watch)
    return frames


@pytest.mark.usefixtures("nothing_is_flushed")
def test_a_frame_is_let_go_once_it_is_appended_and_not_with_the_reply(broker: Broker) -> None:
    frames = watch_frames(broker)
    with RawClient(broker.bootstrap) as client:
        client.send_request(slow_write(), 9)
        wait_until(broker, lambda real: len(partition_of(real).committed) == 1)

        assert broker.run(lambda real: [frame() for frame in frames]) == [None]
        assert broker.run(lambda real: real.server.memory.held) == 0


@pytest.mark.usefixtures("nothing_is_flushed")
def test_a_write_that_waited_for_its_turn_is_let_go_once_it_is_appended_too(broker: Broker) -> None:
    async def acquire() -> None:
        assert broker.broker is not None
        await partition_of(broker.broker).appending.acquire()

    broker.call(acquire())
    with RawClient(broker.bootstrap) as client:
        client.send_request(slow_write(), 9)
        wait_until(broker, lambda real: real.server.memory.requests >= 500_000)
        broker.run(lambda real: partition_of(real).appending.release())
        wait_until(broker, lambda real: len(partition_of(real).committed) == 1)

        # Its reply is still to come: it is not durable.
        wait_until(broker, lambda real: real.server.memory.held == 0)
        assert broker.run(lambda real: len(partition_of(real).committed)) == 1


@pytest.mark.usefixtures("nothing_is_flushed")
def test_a_write_whose_time_is_over_leaves_its_queue(broker: Broker) -> None:
    with RawClient(broker.bootstrap) as client:
        for _ in range(3):
            reply = client.call(slow_write(timeout_ms=50), 9)
            assert reply.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT

        assert broker.run(lambda real: len(partition_of(real).committed)) == 0


@pytest.mark.usefixtures("nothing_is_flushed")
def test_a_write_whose_client_has_gone_leaves_its_queue(broker: Broker) -> None:
    with RawClient(broker.bootstrap) as client:
        client.send_request(slow_write(), 9)
        wait_until(broker, lambda real: len(partition_of(real).committed) == 1)
    wait_until(broker, lambda real: len(partition_of(real).committed) == 0)


def test_a_write_that_waits_for_its_turn_is_counted_and_given_up_when_its_time_is_over(broker: Broker) -> None:
    frames = watch_frames(broker)

    async def acquire() -> None:
        assert broker.broker is not None
        await partition_of(broker.broker).appending.acquire()

    broker.call(acquire())
    with RawClient(broker.bootstrap) as client:
        client.send_request(slow_write(timeout_ms=500), 9)
        wait_until(broker, lambda real: real.server.memory.requests >= 500_000)
        client.receive()
        wait_until(broker, lambda real: real.server.memory.held == 0)
        assert broker.run(lambda real: [frame() for frame in frames]) == [None]
        broker.run(lambda real: partition_of(real).appending.release())

        # It was told that nothing was written, and nothing is.
        assert client.call(produce("t", batch(b"next")), 9).responses[0].partition_responses[0].base_offset == 0


def test_a_write_whose_client_has_gone_is_written_when_its_turn_comes(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def acquire() -> None:
        assert broker.broker is not None
        await partition_of(broker.broker).appending.acquire()

    broker.call(acquire())
    with RawClient(broker.bootstrap) as client:
        client.send_request(produce("t", batch(b"x" * 100_000), acks=0), 9)
        wait_until(broker, lambda real: real.server.memory.requests >= 100_000)
    wait_until(broker, lambda real: not real.server.connections)
    assert broker.run(lambda real: real.server.memory.requests) >= 100_000
    broker.run(lambda real: partition_of(real).appending.release())
    wait_until(broker, lambda real: partition_of(real).log.end_offset == 1)

    assert broker.run(lambda real: real.server.memory.held) == 0
