"""A member of a group in a process of its own: prints what happens to it, one JSON object a line.

It commits what it has handled, after it has handled it.  SIGTERM makes it leave; SIGKILL makes it die.
"""

import json
import signal
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition


def tell(event: str, **more: Any) -> None:
    print(json.dumps({"event": event, "time": time.monotonic(), **more}), flush=True)


class Member:
    """Polls until told to stop."""

    def __init__(self, topic: str, properties: dict[str, Any], is_incremental: bool) -> None:
        self._consumer = Consumer(properties)
        self._is_incremental = is_incremental
        self._is_stopping = False
        self._handled: dict[int, int] = {}
        self._topic = topic
        signal.signal(signal.SIGTERM, self._stop)
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def _stop(self, *_: Any) -> None:
        self._is_stopping = True

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        tell("assigned", partitions=[each.partition for each in partitions])
        (consumer.incremental_assign if self._is_incremental else consumer.assign)(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        tell("revoked", partitions=[each.partition for each in partitions])
        if self._is_incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._handled.clear()
        tell("lost", partitions=[each.partition for each in partitions])

    def run(self) -> None:
        tell("started")
        while not self._is_stopping:
            messages = self._consumer.consume(100, 0.1)
            self._handle([message for message in messages if message.error() is None])
        self._consumer.close()
        tell("closed")

    def _handle(self, messages: list[Message]) -> None:
        if not messages:
            return
        records = []
        for message in messages:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            records.append([partition, offset, int(message.value() or b"")])
            self._handled[partition] = offset + 1
        tell("handled", records=records)
        self._commit()

    def _commit(self) -> None:
        if not self._handled:
            return
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in self._handled.items()]
        self._handled.clear()
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            # The group has moved on: whoever has the partitions now handles these records again.
            tell("commit refused", code=error.args[0].name())


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    Member(given["topic"], given["properties"], given["is_incremental"]).run()
