"""Consume, transform, produce, exactly once, in a process of its own that may be killed at any moment.

Reads a topic as a member of a group, writes `<value>!` to another, and commits its offsets in the same transaction.  Now and then
it aborts on purpose and does the work again.  It ends with 1 when its producer can go on no more; SIGTERM makes it end with 0.
"""

import signal
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

BATCH = 20
# Without this librdkafka gives up the brokers it knows when none answers, and then waits for ever for a group coordinator that it
# has given up: see FINDINGS.md.
KEEP_BROKERS = {"metadata.recovery.strategy": "none"}
ABORT_EVERY = 6
WAIT_S = 30.0


class Worker:
    """One member of the group with one transactional id."""

    def __init__(self, bootstrap: str, source: str, target: str, group: str, transactional_id: str) -> None:
        self._target = target
        self._source = source
        self._is_stopping = False
        self._transactions = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 10_000,
                "linger.ms": 1,
                **KEEP_BROKERS,
            }
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 2000,
                "heartbeat.interval.ms": 200,
                **KEEP_BROKERS,
            }
        )
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: Any) -> None:
        self._is_stopping = True

    def run(self) -> None:
        self._producer.init_transactions(WAIT_S)
        self._consumer.subscribe([self._source])
        while not self._is_stopping:
            messages = [message for message in self._consumer.consume(BATCH, 0.2) if message.error() is None]
            if messages:
                self._handle(messages)
        self._consumer.close()

    def _handle(self, messages: list[Message]) -> None:
        self._transactions += 1
        self._producer.begin_transaction()
        try:
            for message in messages:
                self._producer.produce(self._target, f"{message.value().decode()}!", key=message.key())
            if self._transactions % ABORT_EVERY == 0:
                self._producer.flush(WAIT_S)
                self._undo()
                return
            positions = self._consumer.position(self._consumer.assignment())
            self._producer.send_offsets_to_transaction(positions, self._consumer.consumer_group_metadata(), WAIT_S)
            self._commit()
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            self._undo()

    def _commit(self) -> None:
        while True:
            try:
                self._producer.commit_transaction(WAIT_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def _undo(self) -> None:
        """Abort, and go back to where the last commit left off."""
        while True:
            try:
                self._producer.abort_transaction(WAIT_S)
                break
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
        assignment = self._consumer.assignment()
        if not assignment:
            return
        for partition in self._consumer.committed(assignment, WAIT_S):
            offset = partition.offset if partition.offset >= 0 else 0
            self._consumer.seek(TopicPartition(partition.topic, partition.partition, offset))


if __name__ == "__main__":
    try:
        Worker(*sys.argv[1:]).run()
    except KafkaException as failure:
        print(f"worker ends: {failure}", file=sys.stderr, flush=True)
        sys.exit(1)
