"""Exactly once: each task writes in a transaction that also records the batch, so that the same batch adds nothing twice.

The record is a committed offset, batch id + 1, of a group named for the query, one partition of the ledger topic per task.
Brokers take offsets only for partitions that exist, hence the topic; it has no records, so tools show no lag for the group.
The transactional id is made of query and task: whoever starts a task fences every earlier attempt at it, and its open
transaction is aborted.  An attempt that is fenced waits for the one that took over and ends as it does: two attempts that run at
the same time (speculative execution) then cost Spark no failure, and do not take the id from each other in turn.

Always: the offset is in the transaction before the first row, so a cached producer that was fenced in the meantime is found out
before it has taken any row, and a task that ends without an error has its rows and its batch id committed together.

A task's rows must be the same when its batch runs again; they are when the source's ranges and the number of partitions stay,
which is why an interrupted batch has to be finished with the settings that it began with.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from headrace.client.errors import HeadraceError, passes
from headrace.client.librdkafka import new_consumer
from headrace.client.security.connecting import CONNECTION_PROPERTIES
from headrace.spark.client_log import client_logger
from headrace.spark.cluster import Cluster
from headrace.spark.errors import DeliveryError, FencedError
from headrace.spark.options.options import SinkOptions
from headrace.spark.sink.outgoing import Outgoing, outgoing
from headrace.spark.sink.pool import Pool
from headrace.spark.sink.producing import RecordProducer
from headrace.spark.sink.task_report import TaskReport

logger = logging.getLogger("headrace.spark")

LEDGER_TOPIC = "__headrace_deliveries"
LEDGER_PARTITIONS = 32  # never changes: it decides where a task looks for its record
STEP_SECONDS = 120.0  # a transactional step may wait that long for a broker to come back
REQUEST_SECONDS = 10.0
SESSIONS_MAX = 32  # each has three threads or more and its own connections
SESSION_IDLE_SECONDS = 600.0
UNSTABLE_SECONDS = 2.0  # a record that cannot be read for so long is about to be changed
TRANSACTION_PROPERTIES = {
    "transaction.timeout.ms": "300000",
    # Otherwise librdkafka forgets its brokers when none answers for a while, and a step that waits for one of them never ends.
    "metadata.recovery.strategy": "none",
}
OVERTAKEN_SECONDS = 60.0  # so long a fenced attempt waits for the one that fenced it to show a sign of life

SKIPPED = TaskReport(rows=0, byte_count=0, skipped=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Which batch of which query a task writes."""

    name: str
    batch_id: int
    task: int

    @property
    def transactional_id(self) -> str:
        return f"{self.name}-task-{self.task}"

    @property
    def group(self) -> str:
        """The first tasks share the group that has the query's name, the next ones a group with a number after it."""
        further = self.task // LEDGER_PARTITIONS
        return self.name if further == 0 else f"{self.name}-{further}"

    @property
    def record(self) -> ClientPartition:
        return ClientPartition(LEDGER_TOPIC, self.task % LEDGER_PARTITIONS, self.batch_id + 1)


@dataclass(slots=True)
class _Session:
    """A transactional producer that holds its id until someone else takes it, and the last batch that it knows is recorded."""

    producer: RecordProducer
    group_metadata: Any
    recorded_batch: int

    def close(self) -> None:
        self.producer.close()


# By transactional id.  A session that is dropped costs its task a new one, which finds the last batch in the ledger.
_sessions: Pool[str, _Session] = Pool(most=SESSIONS_MAX, idle_seconds=SESSION_IDLE_SECONDS)


def write_exactly_once(batches: Iterator[pa.RecordBatch], options: SinkOptions, delivery: Delivery) -> TaskReport:
    """Write all rows in one transaction, or none when the batch is recorded already."""
    runs = (run for batch in batches for run in outgoing(batch))
    first = next(runs, None)
    if first is None:
        return TaskReport(rows=0, byte_count=0)
    try:
        written = _write(chain([first], runs), options, delivery)
    except FencedError:
        if not _recorded_by_another(options, delivery):
            raise
        written = SKIPPED
    for _ in runs:  # Spark wants its input read to the end
        pass
    return written


def _write(runs: Iterator[Outgoing], options: SinkOptions, delivery: Delivery) -> TaskReport:
    session = _begin(options, delivery)
    if session is None:
        return SKIPPED
    rows = bytes_written = 0
    try:
        for run in runs:
            session.producer.send(run, options.topic)
            rows += run.row_count
            bytes_written += run.byte_count
        session.producer.finish()
        _step(lambda: session.producer.client.commit_transaction(REQUEST_SECONDS), session, delivery)
    except BaseException:
        _abandon(session)
        raise
    session.recorded_batch = delivery.batch_id
    _sessions.put(delivery.transactional_id, session)
    return TaskReport(rows=rows, byte_count=bytes_written)


def _recorded_by_another(options: SinkOptions, delivery: Delivery) -> bool:
    """Whether the attempt that took over has written the batch, or does so while we wait for it.

    It is waited for as long as its transaction is open, which the broker does not allow for ever: an attempt that gave up
    earlier would be tried again and take the id from one that is nearly done.
    """
    logger.info("%s was taken over, waiting for the other attempt", delivery.transactional_id)
    lasting_ms = int(options.client.get("transaction.timeout.ms", TRANSACTION_PROPERTIES["transaction.timeout.ms"]))
    latest = time.monotonic() + lasting_ms / 1000 + OVERTAKEN_SECONDS
    deadline = time.monotonic() + OVERTAKEN_SECONDS
    with closing(_Ledger(connection_properties(options.client), delivery)) as ledger:
        while (recorded := ledger.recorded_batch()) is None or recorded < delivery.batch_id:
            if recorded is None:
                deadline = min(latest, time.monotonic() + OVERTAKEN_SECONDS)
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.2)
    return True


def _begin(options: SinkOptions, delivery: Delivery) -> _Session | None:
    """A session with an open transaction that holds the batch's record; None when the batch is recorded already."""
    kept = _sessions.take(delivery.transactional_id)
    if kept is not None and kept.recorded_batch >= delivery.batch_id:
        _sessions.put(delivery.transactional_id, kept)
        return None
    if kept is not None:
        try:
            _open_transaction(kept, delivery)
            return kept
        except DeliveryError as fenced:
            logger.info("%s was taken over in the meantime: %s", delivery.transactional_id, fenced)
            kept.close()
    session = _connect(options, delivery)
    if session.recorded_batch >= delivery.batch_id:
        logger.info("batch %d of task %d is written already", delivery.batch_id, delivery.task)
        _sessions.put(delivery.transactional_id, session)
        return None
    _open_transaction(session, delivery)
    return session


def _connect(options: SinkOptions, delivery: Delivery) -> _Session:
    """Take the transactional id over, then read what is recorded: in this order, so that nobody can add to it in between."""
    client = options.client
    properties = TRANSACTION_PROPERTIES | dict(client) | {"transactional.id": delivery.transactional_id}
    producer = RecordProducer(properties)
    if options.topic is not None:
        producer.require_topic(options.topic, options.connect_timeout_ms)
    connection = connection_properties(client)
    require_ledger(options, producer)
    with closing(_Ledger(connection, delivery)) as ledger:
        session = _Session(producer, ledger.group_metadata, -1)
        _step(lambda: producer.client.init_transactions(REQUEST_SECONDS), session, delivery)
        session.recorded_batch = ledger.settled_batch()
    return session


class _Ledger:
    """What is recorded of one task's batches.

    Asked for by a consumer: librdkafka's admin client crashes the process when a group's coordinator has moved (its issue 5040).
    """

    def __init__(self, connection: Mapping[str, str], delivery: Delivery) -> None:
        properties = dict(connection) | {"group.id": delivery.group, "isolation.level": "read_committed"}
        self._consumer = new_consumer(properties, client_logger)
        self._delivery = delivery

    @property
    def group_metadata(self) -> Any:
        return self._consumer.consumer_group_metadata()

    def settled_batch(self) -> int:
        """The last batch whose rows are committed, once an earlier attempt's transaction, which is being aborted, has ended."""
        deadline = time.monotonic() + STEP_SECONDS
        while (recorded := self.recorded_batch()) is None:
            if time.monotonic() >= deadline:
                raise DeliveryError(f"an earlier transaction of {self._delivery.transactional_id} does not end")
        return recorded

    def recorded_batch(self) -> int | None:
        """The last batch whose rows are committed, -1 when there is none; None while a transaction is about to change it."""
        deadline = time.monotonic() + STEP_SECONDS
        # Of this task alone: those of other tasks are not stable for as long as they write.
        mine = ClientPartition(LEDGER_TOPIC, self._delivery.record.partition)
        while True:
            try:
                (answer,) = self._consumer.committed([mine], UNSTABLE_SECONDS)
                if answer.error is not None:
                    raise KafkaException(answer.error)
                return max(0, int(answer.offset)) - 1  # a negative offset says that there is none
            except KafkaException as failure:
                error = failure.args[0]
                if error.code() == KafkaError._TIMED_OUT:  # librdkafka asks again for as long as the offset is not stable
                    return None
                if not passes(error) or time.monotonic() >= deadline:
                    group = self._delivery.group
                    raise DeliveryError(f"what group {group} has recorded cannot be read: {error.str()}") from None
                time.sleep(0.1)

    def close(self) -> None:
        self._consumer.close()


def _open_transaction(session: _Session, delivery: Delivery) -> None:
    """Begin, and put the batch's record in first: a fenced session fails here, before it has taken a row."""
    client = session.producer.client
    try:
        client.begin_transaction()
    except KafkaException as failure:
        session.producer.notice(failure.args[0])
        raise session.producer.failure(f"no transaction can begin: {failure.args[0].str()}") from None
    _step(
        lambda: client.send_offsets_to_transaction([delivery.record], session.group_metadata, REQUEST_SECONDS), session, delivery
    )


def _step(action: Callable[[], None], session: _Session, delivery: Delivery) -> None:
    """One step of a transaction, tried again while librdkafka says that this may help."""
    deadline = time.monotonic() + STEP_SECONDS
    while True:
        try:
            return action()
        except KafkaException as failure:
            error = failure.args[0]
            session.producer.notice(error)
            session.producer.check()
            if not error.retriable() or time.monotonic() >= deadline:
                reason = f"batch {delivery.batch_id} of task {delivery.task} was not written: {error.str()}"
                raise session.producer.failure(reason) from None
            logger.info("trying again: %s", error.str())


def _abandon(session: _Session) -> None:
    """Leave nothing half written.  If this fails, the next attempt or the transaction's time-out does it."""
    try:
        session.producer.client.purge()
        session.producer.client.abort_transaction(REQUEST_SECONDS)
    except KafkaException as failure:
        logger.info("the transaction is left to its time-out: %s", failure.args[0].str())


def require_ledger(options: SinkOptions, producer: RecordProducer) -> None:
    """Create the ledger topic where it is not there yet."""
    try:
        with closing(Cluster(options.client, connect_timeout_ms=options.connect_timeout_ms)) as cluster:
            cluster.create(LEDGER_TOPIC, LEDGER_PARTITIONS, int(STEP_SECONDS * 1000))
    except HeadraceError as error:
        raise DeliveryError(
            f"exactly-once delivery keeps its records under the topic {LEDGER_TOPIC} with {LEDGER_PARTITIONS} partitions, "
            f"which is not there and cannot be created: {error}"
        ) from None
    producer.require_topic(LEDGER_TOPIC, options.connect_timeout_ms)


def connection_properties(client: Mapping[str, Any]) -> dict[str, Any]:
    """Those properties that say how to reach and authenticate to the brokers, good for every kind of client."""
    return {name: value for name, value in client.items() if name.startswith(OF_EVERY_CLIENT)}


OF_EVERY_CLIENT = ("bootstrap.servers", "client.", *CONNECTION_PROPERTIES)
