"""Two attempts at one task: the later one fences the earlier, and the rows are there once."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.spark.errors import FencedError
from headrace.spark.options.options import SinkOptions, sink_options
from headrace.spark.sink import at_least_once as delivery_module
from headrace.spark.sink import exactly_once
from headrace.spark.sink.at_least_once import write_at_least_once
from headrace.spark.sink.exactly_once import Delivery, write_exactly_once
from headrace.spark.sink.pool import Pool
from headrace.spark.sink.task_report import TaskReport
from headrace.testing import Api, Broker, ErrorCode
from tests.spark.conftest import TopicMaker, committed_messages
from tests.support.callers import clients_here
from tests.support.waiting import until

Values = Callable[..., list[bytes]]


@pytest.fixture
def topic(make_topic: TopicMaker) -> str:
    return make_topic()


@pytest.fixture
def options(bootstrap: str, topic: str) -> SinkOptions:
    return sink_options({"kafka.bootstrap.servers": bootstrap, "topic": topic, "delivery": "exactly-once"})


@pytest.fixture
def query() -> Iterator[str]:
    yield f"test-{uuid.uuid4()}"
    exactly_once._sessions.clear()


def rows(*values: bytes) -> Iterator[pa.RecordBatch]:
    return iter([pa.record_batch([pa.array(values)], names=["value"])])


def broken_off() -> Iterator[pa.RecordBatch]:
    yield from rows(b"half")
    raise OSError("the input broke off")


def forget() -> None:
    """What another worker process knows: nothing of the sessions of this one."""
    exactly_once._sessions.clear()


def test_a_task_that_ran_before_is_skipped_by_whoever_runs_it_again(
    options: SinkOptions, query: str, topic: str, committed_values: Values
) -> None:
    delivery = Delivery(name=query, batch_id=3, task=0)
    first = write_exactly_once(rows(b"a", b"b"), options, delivery)
    here = write_exactly_once(rows(b"a", b"b"), options, delivery)
    forget()
    elsewhere = write_exactly_once(rows(b"a", b"b"), options, delivery)

    assert (first.rows, first.skipped) == (2, False)
    assert (here.skipped, elsewhere.skipped) == (True, True)
    assert committed_values(topic) == [b"a", b"b"]


def test_an_attempt_that_was_overtaken_is_fenced_adds_nothing_and_ends_as_the_other_does(
    options: SinkOptions, query: str, topic: str, committed_values: Values
) -> None:
    delivery = Delivery(name=query, batch_id=0, task=0)

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from rows(b"a")
        forget()
        assert not write_exactly_once(rows(b"a", b"b"), options, delivery).skipped
        yield from rows(b"b")

    assert write_exactly_once(overtaken(), options, delivery).skipped
    assert committed_values(topic) == [b"a", b"b"]


def test_an_attempt_that_was_overtaken_waits_for_as_long_as_the_other_writes(
    options: SinkOptions, query: str, topic: str, committed_values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exactly_once, "OVERTAKEN_SECONDS", 0.5)
    monkeypatch.setattr(exactly_once, "STEP_SECONDS", 0.5)
    delivery = Delivery(name=query, batch_id=0, task=0)
    begun, may_end = threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        yield from rows(b"a")
        begun.set()
        assert may_end.wait(60)
        yield from rows(b"b")

    with ThreadPoolExecutor(1) as pool:

        def overtaken() -> Iterator[pa.RecordBatch]:
            yield from rows(b"a")
            forget()
            others.append(pool.submit(write_exactly_once, slow(), options, delivery))
            assert begun.wait(60)
            threading.Timer(1.5, may_end.set).start()
            yield from rows(b"b")

        others: list[Future[TaskReport]] = []
        assert write_exactly_once(overtaken(), options, delivery).skipped
        assert not others[0].result().skipped

    assert committed_values(topic) == [b"a", b"b"]


def test_an_attempt_that_was_overtaken_by_one_that_died_fails_so_that_spark_tries_again(
    options: SinkOptions, query: str, topic: str, committed_values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exactly_once, "OVERTAKEN_SECONDS", 1.0)
    delivery = Delivery(name=query, batch_id=0, task=0)

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from rows(b"a")
        forget()
        with pytest.raises(OSError):
            write_exactly_once(broken_off(), options, delivery)
        yield from rows(b"b")

    with pytest.raises(FencedError):
        write_exactly_once(overtaken(), options, delivery)
    assert committed_values(topic) == []
    assert not write_exactly_once(rows(b"a", b"b"), options, delivery).skipped
    assert committed_values(topic) == [b"a", b"b"]


def test_a_record_that_is_just_being_committed_is_waited_for(
    options: SinkOptions, query: str, topic: str, committed_values: Values
) -> None:
    """A broker may say that a transaction has ended a moment before its offsets are to be read."""
    delivery = Delivery(name=query, batch_id=0, task=0)
    write_exactly_once(rows(b"warm"), options, Delivery(name=query, batch_id=0, task=1))  # the ledger is there
    other = Producer({"bootstrap.servers": options.client["bootstrap.servers"], "transactional.id": f"{query}-other"})
    group = Consumer({"bootstrap.servers": options.client["bootstrap.servers"], "group.id": delivery.group})
    other.init_transactions(30)
    other.begin_transaction()
    other.send_offsets_to_transaction([delivery.record], group.consumer_group_metadata(), 30)
    threading.Timer(1.0, lambda: other.commit_transaction(30)).start()

    assert write_exactly_once(rows(b"a"), options, delivery).skipped
    assert committed_values(topic) == [b"warm"]


def test_two_attempts_at_the_same_time_both_end_well_and_write_once(
    options: SinkOptions, query: str, topic: str, committed_values: Values
) -> None:
    delivery = Delivery(name=query, batch_id=0, task=0)
    together = threading.Barrier(2)

    def attempt() -> bool:
        together.wait(60)
        return write_exactly_once(rows(b"a", b"b"), options, delivery).skipped

    with ThreadPoolExecutor(2) as pool:
        skipped = [one.result() for one in [pool.submit(attempt), pool.submit(attempt)]]

    assert sorted(skipped) == [False, True]
    assert committed_values(topic) == [b"a", b"b"]


def test_a_task_that_writes_for_long_does_not_hold_up_another_that_starts(options: SinkOptions, query: str) -> None:
    took = []

    def slow() -> Iterator[pa.RecordBatch]:
        yield from rows(b"a")
        began = time.monotonic()
        write_exactly_once(rows(b"b"), options, Delivery(name=query, batch_id=0, task=1))
        took.append(time.monotonic() - began)
        yield from rows(b"c")

    write_exactly_once(slow(), options, Delivery(name=query, batch_id=0, task=0))

    assert took[0] < exactly_once.REQUEST_SECONDS


def test_an_attempt_that_fails_leaves_nothing_behind_and_the_next_one_writes(
    options: SinkOptions, query: str, topic: str, committed_values: Values
) -> None:
    delivery = Delivery(name=query, batch_id=0, task=0)
    with pytest.raises(OSError, match="the input broke off"):
        write_exactly_once(broken_off(), options, delivery)
    write_exactly_once(rows(b"whole"), options, delivery)

    assert committed_values(topic) == [b"whole"]


def test_a_session_kept_from_the_last_batch_notices_that_it_was_taken_over(
    options: SinkOptions, query: str, topic: str, committed_values: Values
) -> None:
    write_exactly_once(rows(b"0"), options, Delivery(name=query, batch_id=0, task=0))
    name = Delivery(name=query, batch_id=0, task=0).transactional_id
    session = exactly_once._sessions.take(name)
    assert session is not None
    write_exactly_once(rows(b"1"), options, Delivery(name=query, batch_id=1, task=0))  # another worker
    exactly_once._sessions.put(name, session)
    write_exactly_once(rows(b"2"), options, Delivery(name=query, batch_id=2, task=0))  # the first one again

    assert committed_values(topic) == [b"0", b"1", b"2"]


def test_tasks_beyond_the_ledgers_partitions_do_not_share_a_record(
    options: SinkOptions, query: str, topic: str, committed_values: Values
) -> None:
    for task in (0, exactly_once.LEDGER_PARTITIONS, 2 * exactly_once.LEDGER_PARTITIONS):
        written = write_exactly_once(rows(b"%d" % task), options, Delivery(name=query, batch_id=0, task=task))
        assert not written.skipped

    assert len(committed_values(topic)) == 3


def test_a_task_without_rows_costs_no_transaction(options: SinkOptions, query: str) -> None:
    assert write_exactly_once(iter([]), options, Delivery(name=query, batch_id=0, task=0)).rows == 0
    assert exactly_once._sessions.keys() == []


def test_sessions_are_bounded_and_one_that_was_dropped_is_not_missed(
    options: SinkOptions, query: str, topic: str, committed_values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = clients_here()
    monkeypatch.setattr(exactly_once._sessions, "most", 2)
    for batch in range(2):
        for task in range(4):
            delivery = Delivery(name=query, batch_id=batch, task=task)
            assert not write_exactly_once(rows(b"%d of %d" % (batch, task)), options, delivery).skipped
    again = write_exactly_once(rows(b"0 of 0"), options, Delivery(name=query, batch_id=0, task=0))

    assert again.skipped
    assert exactly_once._sessions.keys() == [f"{query}-task-3", f"{query}-task-0"]
    # Nobody waits for the collector; librdkafka ends producers in its own time.
    until(lambda: clients_here() - before <= 2, "the clients of dropped sessions are gone")
    assert sorted(committed_values(topic)) == sorted(b"%d of %d" % (batch, task) for batch in range(2) for task in range(4))


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_rows_acknowledged_without_an_offset_are_written_once_and_the_task_ends(delivery: str, query: str) -> None:
    """The reply for a batch is lost, and the answer to the second attempt says only that it is there already."""
    with Broker() as own:
        admin = AdminClient({"bootstrap.servers": own.bootstrap})
        admin.create_topics([NewTopic("out", 1, 1)])["out"].result(30)
        given = {"kafka.bootstrap.servers": own.bootstrap, "topic": "out", "delivery": delivery}
        options = sink_options(given | {"kafka.socket.timeout.ms": "1000", "kafka.request.timeout.ms": "1000"})

        def write(batch: int, *values: bytes) -> TaskReport:
            if delivery == "at-least-once":
                return write_at_least_once(rows(*values), options)
            return write_exactly_once(rows(*values), options, Delivery(name=query, batch_id=batch, task=0))

        write(0, b"first")
        lost = own.faults.on(Api.PRODUCE, drop_reply=True, times=1)
        again = own.faults.on(Api.PRODUCE, error=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, times=1)
        written = write(1, b"a", b"b")
        write(2, b"last")

        assert (lost.hits, again.hits) == (1, 1)
        assert (written.rows, written.skipped) == (2, False)
        assert [message.value() for message in committed_messages(own.bootstrap, "out")] == [b"first", b"a", b"b", b"last"]
        delivery_module._producers.clear()
        forget()


class _Thing:
    """Counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_what_nobody_asked_for_in_a_while_is_closed_once() -> None:
    now = 0.0
    pool: Pool[str, _Thing] = Pool(most=2, idle_seconds=10.0, clock=lambda: now)
    idle, used, third, fourth = things = [_Thing() for _ in range(4)]
    pool.put("idle", idle)
    now = 5.0
    pool.put("used", used)
    now = 10.0
    assert pool.take("used") is used
    pool.put("used", used)
    assert (pool.take("idle"), [one.closed for one in things]) == (None, [1, 0, 0, 0])
    pool.put("third", third)
    pool.put("fourth", fourth)
    assert ([one.closed for one in things], pool.keys()) == ([1, 1, 0, 0], ["third", "fourth"])
    pool.clear()
    assert ([one.closed for one in things], pool.keys()) == ([1, 1, 1, 1], [])
