"""Writes inside transactions while the coordinator is being asked about them (KIP-890).

The coordinator is the real one; the test only makes its answer wait.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from headrace.coordination.transaction.state import TransactionState
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import TopicPartition
from headrace.testing import Broker
from tests.integration.transaction_wire import Teller
from tests.support.raw import batch

WAIT_S = 10.0


class SlowCoordinator:
    """Answers to verifications that are held back until the test lets them go."""

    def __init__(self, broker: Broker) -> None:
        self.asked = threading.Semaphore(0)
        self._broker = broker
        self._go: asyncio.Event | None = None
        broker.run(self._install)

    def _install(self, real: Any) -> None:
        self._go = asyncio.Event()
        look = real.parts.transactions.shards.look

        async def slowly(*question: Any) -> Any:
            answered = await look(*question)
            self.asked.release()
            assert self._go is not None
            await self._go.wait()
            return answered

        real.parts.transactions.shards.look = slowly

    def let_go(self) -> None:
        assert self._go is not None
        self._broker.run(lambda _: self._go.set() if self._go is not None else None)


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def partition(own_broker: Broker, topic: str) -> TopicPartition:
    with Teller(own_broker.bootstrap) as teller:
        teller.create_topic(topic)
    return TopicPartition(topic, 0)


@pytest.fixture
def apart(own_broker: Broker) -> Iterator[Callable[..., "Future[Any]"]]:
    """Ask something on a connection and in a thread of its own."""

    def ask(question: Callable[[Teller], Any]) -> "Future[Any]":
        def run() -> Any:
            with Teller(own_broker.bootstrap) as teller:
                return question(teller)

        return pool.submit(run)

    with ThreadPoolExecutor(8) as pool:
        yield ask


def test_others_write_while_a_transaction_is_being_verified(
    own_broker: Broker, partition: TopicPartition, topic: str, apart: Any
) -> None:
    with Teller(own_broker.bootstrap) as teller:
        producer = teller.identity(topic)
        teller.add(topic, producer, partition)
        coordinator = SlowCoordinator(own_broker)
        waiting = apart(lambda other: other.produce(topic, producer, partition, b"slow", version=11))
        assert coordinator.asked.acquire(timeout=WAIT_S)
        plain = teller.produce_batch(None, partition, batch(b"quick"), 11)
        coordinator.let_go()

        assert plain == (ErrorCode.NONE, 0)
        assert waiting.result(WAIT_S) == (ErrorCode.NONE, 1)


def test_batches_of_one_producer_keep_their_order_while_it_is_being_verified(
    own_broker: Broker, partition: TopicPartition, topic: str, apart: Any
) -> None:
    with Teller(own_broker.bootstrap) as teller:
        producer = teller.identity(topic)
        teller.add(topic, producer, partition)
        coordinator = SlowCoordinator(own_broker)
        requests = []
        for sequence in range(5):
            requests.append(
                apart(
                    lambda other, sequence=sequence: other.produce(
                        topic, producer, partition, b"%d" % sequence, sequence=sequence, version=11
                    )
                )
            )
            # Each is at the broker before the next is sent.
            if sequence == 0:
                assert coordinator.asked.acquire(timeout=WAIT_S)
            else:
                _until(lambda count=sequence + 1: own_broker.run(lambda real: _standing(real, partition, producer)) == count)
        coordinator.let_go()

        assert [request.result(WAIT_S) for request in requests] == [(ErrorCode.NONE, offset) for offset in range(5)]


def _standing(real: Any, partition: TopicPartition, producer: tuple[int, int]) -> int:
    return real.parts.transactions.waiting.standing((partition, producer[0]))


def _until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(1000):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("it never came to that")


def test_a_write_verified_before_the_end_and_appended_after_it_is_refused(
    own_broker: Broker, partition: TopicPartition, topic: str, apart: Any
) -> None:
    """Without the guard it would open a transaction that nobody ever ends, and readers would wait for ever."""
    with Teller(own_broker.bootstrap) as teller:
        producer = teller.identity(topic)
        teller.add(topic, producer, partition)
        coordinator = SlowCoordinator(own_broker)
        late = apart(lambda other: other.produce(topic, producer, partition, b"late", version=11))
        assert coordinator.asked.acquire(timeout=WAIT_S)
        ended = teller.end(topic, producer, committed=False, version=3)
        _until(lambda: teller.end_offset(partition, committed=False) == 1)
        coordinator.let_go()
        code, _ = late.result(WAIT_S)

        assert ended.error_code == ErrorCode.NONE
        assert code == ErrorCode.INVALID_TXN_STATE
        assert teller.end_offset(partition, committed=True) == 1, "readers of committed records are not held up"


def test_offsets_verified_before_the_end_and_committed_after_it_are_refused(
    own_broker: Broker, partition: TopicPartition, topic: str, apart: Any
) -> None:
    with Teller(own_broker.bootstrap) as teller:
        producer = teller.identity(topic)
        assert teller.add_offsets(topic, producer, topic) == ErrorCode.NONE
        coordinator = SlowCoordinator(own_broker)
        late = apart(lambda other: other.commit_offset(topic, producer, topic, partition, 7))
        assert coordinator.asked.acquire(timeout=WAIT_S)
        teller.end(topic, producer, committed=False, version=3)
        _until(lambda: own_broker.run(lambda real: _is_complete(real, topic)))
        coordinator.let_go()

        assert late.result(WAIT_S) == ErrorCode.INVALID_TXN_STATE
        assert teller.committed_offset(topic, partition) == (ErrorCode.NONE, -1), "no offset is left undecided"


def _is_complete(real: Any, transactional_id: str) -> bool:
    found = [led.shard.get(transactional_id) for led in real.parts.transactions.shards.loaded()]
    return any(each is not None and each.state is TransactionState.COMPLETE_ABORT for each in found)


def test_a_coordinator_that_cannot_be_asked_makes_the_producer_come_back(
    own_broker: Broker, partition: TopicPartition, topic: str
) -> None:
    def unreachable(real: Any) -> None:
        async def refuse(*question: Any) -> Any:
            raise RequestError(ErrorCode.NOT_COORDINATOR)

        real.parts.transactions.shards.look = refuse

    with Teller(own_broker.bootstrap) as teller:
        producer = teller.identity(topic)
        teller.add(topic, producer, partition)
        own_broker.run(unreachable)

        assert teller.produce(topic, producer, partition, b"x", version=11)[0] == ErrorCode.NOT_ENOUGH_REPLICAS


def test_verification_can_be_switched_off_for_older_producers(topic: str) -> None:
    with Broker(settings={"transaction.partition.verification.enable": "false"}) as broker, Teller(broker.bootstrap) as teller:
        teller.create_topic(topic)
        producer = teller.identity(topic)

        assert teller.produce(topic, producer, TopicPartition(topic, 0), b"x", version=11)[0] == ErrorCode.NONE
