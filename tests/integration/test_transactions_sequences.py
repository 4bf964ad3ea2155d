"""The three rules of idempotence, on the wire and byte for byte: the next sequence is written; one already written is
acknowledged and not written again; a gap is an error.

Requests and replies stand here as the bytes that cross the socket, so that no codec of ours can hide a mistake of ours.
"""

import struct
import time
from collections.abc import Iterator

import pytest
from crc32c import crc32c

from headrace.model.identity import TopicPartition
from headrace.testing import Broker
from tests.integration.transaction_wire import Teller

VERSION = 7  # plain lengths, and a reply whose every byte is known: later ones carry a message for people
NO_THROTTLING = bytes(4)
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
SEQUENCE_MAX = 2**31 - 1
TIMESTAMP = time.time_ns() // 1_000_000  # of today: a producer whose last batch is older than a day is forgotten at a restart


def batch_bytes(producer_id: int, epoch: int, sequence: int, *values: bytes) -> bytes:
    """A record batch, format v2, put together by hand."""
    records = b""
    for offset_delta, value in enumerate(values):
        # Attributes, timestamp delta, offset delta, no key, value, no headers; all numbers as zigzag varints of one byte.
        body = bytes([0, 0, offset_delta * 2, 1, len(value) * 2]) + value + bytes([0])
        records += bytes([len(body) * 2]) + body
    covered = struct.pack(">hiqqqhii", 0, len(values) - 1, TIMESTAMP, TIMESTAMP, producer_id, epoch, sequence, len(values))
    covered += records
    after_length = struct.pack(">ibI", -1, 2, crc32c(covered)) + covered
    return struct.pack(">qi", 0, len(after_length)) + after_length


def produce_frame(correlation_id: int, topic: str, batch: bytes) -> bytes:
    name = struct.pack(">h", len(topic)) + topic.encode()
    header = struct.pack(">hhih", 0, VERSION, correlation_id, 4) + b"byte"
    body = struct.pack(">hhii", -1, -1, 5000, 1) + name + struct.pack(">iii", 1, 0, len(batch)) + batch
    return struct.pack(">i", len(header) + len(body)) + header + body


def reply_frame(correlation_id: int, topic: str, error: int, base_offset: int, log_start_offset: int) -> bytes:
    name = struct.pack(">h", len(topic)) + topic.encode()
    partition = struct.pack(">ihqqq", 0, error, base_offset, -1, log_start_offset)
    return struct.pack(">ii", correlation_id, 1) + name + struct.pack(">i", 1) + partition + NO_THROTTLING


class Wire:
    """A partition, and a socket to its leader."""

    def __init__(self, teller: Teller, topic: str) -> None:
        self.teller = teller
        self.topic = topic
        self._sent = 0

    def send(self, batch: bytes) -> None:
        self._sent += 1
        self.teller.send(produce_frame(self._sent, self.topic, batch))

    def expect_written(self, correlation_id: int, base_offset: int) -> None:
        assert self.teller.receive() == reply_frame(correlation_id, self.topic, 0, base_offset, 0)

    def expect_error(self, correlation_id: int, error: int) -> None:
        assert self.teller.receive() == reply_frame(correlation_id, self.topic, error, -1, -1)

    def stored(self) -> bytes:
        """The log from its first byte to its last."""
        return bytes(self.teller.fetch(TopicPartition(self.topic, 0), committed=False).records or b"")


def as_stored(batch: bytes, base_offset: int) -> bytes:
    """The leader stamps the base offset and its epoch (0), both outside the CRC; nothing else changes."""
    return struct.pack(">q", base_offset) + batch[8:12] + struct.pack(">i", 0) + batch[16:]


@pytest.fixture
def wire(bootstrap: str, topic: str) -> Iterator[Wire]:
    with Teller(bootstrap) as teller:
        teller.create_topic(topic)
        yield Wire(teller, topic)


def test_the_next_sequence_is_written(wire: Wire) -> None:
    first, second = batch_bytes(9001, 0, 0, b"a", b"b"), batch_bytes(9001, 0, 2, b"c")
    wire.send(first)
    wire.send(second)

    wire.expect_written(1, 0)
    wire.expect_written(2, 2)
    assert wire.stored() == as_stored(first, 0) + as_stored(second, 2)


def test_a_sequence_already_written_is_acknowledged_with_its_offset_and_not_written_again(wire: Wire) -> None:
    batches = [batch_bytes(9001, 0, sequence, b"%d" % sequence) for sequence in range(5)]
    for batch in batches:
        wire.send(batch)
    for batch in batches:
        wire.send(batch)

    for number in range(5):
        wire.expect_written(number + 1, number)
    for number in range(5):
        wire.expect_written(number + 6, number)
    assert wire.stored() == b"".join(as_stored(batch, offset) for offset, batch in enumerate(batches))


def test_a_gap_is_an_error_and_writes_nothing(wire: Wire) -> None:
    first, gap = batch_bytes(9001, 0, 0, b"a"), batch_bytes(9001, 0, 2, b"c")
    wire.send(first)
    wire.send(gap)

    wire.expect_written(1, 0)
    wire.expect_error(2, OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert wire.stored() == as_stored(first, 0)


def test_a_sequence_too_old_to_be_remembered_is_an_error(wire: Wire) -> None:
    for sequence in range(6):
        wire.send(batch_bytes(9001, 0, sequence, b"x"))
    wire.send(batch_bytes(9001, 0, 0, b"x"))

    for number in range(6):
        wire.expect_written(number + 1, number)
    wire.expect_error(7, OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_the_sequence_after_the_greatest_is_zero(wire: Wire) -> None:
    last, wrapped = batch_bytes(9001, 0, SEQUENCE_MAX, b"last"), batch_bytes(9001, 0, 0, b"first again")
    wire.send(last)
    wire.send(wrapped)
    wire.send(wrapped)

    wire.expect_written(1, 0)
    wire.expect_written(2, 1)
    wire.expect_written(3, 1)
    assert wire.stored() == as_stored(last, 0) + as_stored(wrapped, 1)


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(wire: Wire) -> None:
    wire.send(batch_bytes(9001, 0, 0, b"a"))
    wire.send(batch_bytes(9001, 1, 5, b"not zero"))
    wire.send(batch_bytes(9001, 1, 0, b"b"))
    wire.send(batch_bytes(9001, 0, 1, b"fenced"))

    wire.expect_written(1, 0)
    wire.expect_error(2, OUT_OF_ORDER_SEQUENCE_NUMBER)
    wire.expect_written(3, 1)
    wire.expect_error(4, INVALID_PRODUCER_EPOCH)


def test_producers_do_not_disturb_each_other(wire: Wire) -> None:
    for producer_id in (9001, 9002):
        wire.send(batch_bytes(producer_id, 0, 0, b"a"))
    wire.send(batch_bytes(9002, 0, 1, b"b"))
    wire.send(batch_bytes(9001, 0, 1, b"b"))

    for number in range(4):
        wire.expect_written(number + 1, number)


@pytest.mark.parametrize("clean", [True, False], ids=["after a clean stop", "after a crash"])
def test_the_rules_hold_over_a_restart(topic: str, clean: bool) -> None:
    written = batch_bytes(9001, 3, 7, b"a")
    with Broker(memory=False) as broker:
        with Teller(broker.bootstrap) as teller:
            teller.create_topic(topic)
            wire = Wire(teller, topic)
            wire.send(written)
            wire.expect_written(1, 0)
        if clean:
            broker.restart()
        else:
            broker.abandon()
            broker.start()
        with Teller(broker.bootstrap) as teller:
            wire = Wire(teller, topic)
            for batch in (written, batch_bytes(9001, 3, 9, b"gap"), batch_bytes(9001, 3, 8, b"b")):
                wire.send(batch)

            wire.expect_written(1, 0)
            wire.expect_error(2, OUT_OF_ORDER_SEQUENCE_NUMBER)
            wire.expect_written(3, 1)
