"""Many records at a time: the sequence a reader gets, and the receipt a sender gets."""

import threading
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Message

from headrace import BatchFailed, DeliveryFailed, Record
from headrace.client.producer.receipts import GATHERED_MAX, BatchReceipt, SendFuture
from headrace.client.records.record import Records, joined

NO_OFFSET = OFFSET_INVALID  # what librdkafka has when it acknowledges a batch because a later one was


def message(offset: int, partition: int = 0) -> Message:
    return Message(
        topic="orders",
        partition=partition,
        offset=offset,
        key=b"k",
        value=b"%d" % offset,
        headers=None,
        timestamp=(1, offset + 7),
    )


def of_bytes(count: int) -> Records[Any, Any]:
    return Records([message(offset) for offset in range(count)])


def decoded(count: int) -> Records[Any, Any]:
    return Records([message(offset) for offset in range(count)], list(range(count)), [f"key-{each}" for each in range(count)])


def test_a_batch_is_used_like_a_list() -> None:
    batch = of_bytes(5)

    assert len(batch) == 5
    assert bool(batch)
    assert [record.value for record in batch] == [b"0", b"1", b"2", b"3", b"4"]
    assert (batch[0].offset, batch[-1].offset) == (0, 4)
    assert [record.offset for record in batch[1:3]] == [1, 2]
    assert batch[2] in batch
    assert batch == list(batch)
    assert of_bytes(0) == []
    assert not of_bytes(0)
    with pytest.raises(IndexError):
        batch[5]


def test_a_batch_goes_together_with_lists() -> None:
    gathered: list[Record[Any, Any]] = []
    gathered += of_bytes(2)

    assert gathered + of_bytes(1) == of_bytes(2) + of_bytes(1)
    assert len(gathered) == 2


@pytest.mark.parametrize("how", [lambda batch: list(batch), lambda batch: [batch[index] for index in range(3)]])
def test_keys_and_values_that_were_decoded_stay_with_their_records(how: Any) -> None:
    records = how(decoded(3))

    assert [(record.offset, record.key, record.value) for record in records] == [
        (0, "key-0", 0),
        (1, "key-1", 1),
        (2, "key-2", 2),
    ]
    assert records[1].raw_value == b"1"
    assert [record.key for record in decoded(3)[1:]] == ["key-1", "key-2"]


def test_a_batch_that_follows_another_keeps_what_was_decoded() -> None:
    assert [record.value for record in joined(decoded(2), decoded(1))] == [0, 1, 0]
    assert [record.value for record in joined(of_bytes(2), of_bytes(1))] == [b"0", b"1", b"0"]
    assert [record.value for record in joined(of_bytes(0), decoded(1))] == [0]


def receipt() -> BatchReceipt:
    def describe(error: Any, topic: str, message: Message) -> DeliveryFailed:
        return DeliveryFailed(str(error), topic=topic)

    return BatchReceipt("orders", "localhost:9092", describe, lambda future, failure: None)


@pytest.mark.parametrize("count", [0, 1, GATHERED_MAX - 1, GATHERED_MAX, GATHERED_MAX + 1, 3 * GATHERED_MAX])
@pytest.mark.parametrize("known_before", [0, 1, GATHERED_MAX])
def test_the_last_report_resolves_the_future_whenever_the_number_becomes_known(count: int, known_before: int) -> None:
    under_way = receipt()
    early = min(known_before, count)
    for offset in range(early):
        under_way.report(None, message(offset))
    under_way.handed_over(count)
    under_way.complete()

    for offset in range(early, count):
        assert not under_way.future.done()
        under_way.report(None, message(offset))

    delivered = under_way.future.result(0)
    assert len(delivered) == count
    assert [each.offset for each in delivered] == list(range(count))
    assert all(each == ("orders", 0, each.offset, (each.offset or 0) + 7) for each in delivered)


@pytest.mark.parametrize("count", [1, GATHERED_MAX, GATHERED_MAX + 1])
def test_an_acknowledgement_without_an_offset_ends_the_delivery_and_says_so(count: int) -> None:
    under_way = receipt()
    under_way.handed_over(count + 1)
    under_way.complete()
    under_way.report(None, message(5))
    for _ in range(count):
        under_way.report(None, message(NO_OFFSET))

    delivered = under_way.future.result(0)
    assert [each.offset for each in delivered] == [5, *[None] * count]
    assert delivered[1] == ("orders", 0, None, NO_OFFSET + 7)
    assert delivered[-1:][0].offset is None


def test_a_single_acknowledgement_without_an_offset_ends_its_delivery() -> None:
    future = SendFuture("localhost:9092", lambda future, error, message: None)
    future(None, message(NO_OFFSET))

    assert future.result(0) == ("orders", 0, None, NO_OFFSET + 7)


def test_receipts_are_read_by_index_and_by_slice() -> None:
    under_way = receipt()
    under_way.handed_over(4)
    under_way.complete()
    for offset in range(4):
        under_way.report(None, message(offset, partition=offset % 2))

    delivered = under_way.future.result(0)
    assert delivered[1] == ("orders", 1, 1, 8)
    assert delivered[-1].offset == 3
    assert [each.partition for each in delivered[1:3]] == [1, 0]


def test_one_that_failed_is_told_beside_those_that_did_not() -> None:
    under_way = receipt()
    under_way.handed_over(3)
    under_way.report(None, message(0))
    under_way.report("refused", message(-1))
    under_way.complete()
    assert not under_way.future.done()
    under_way.report(None, message(1))

    with pytest.raises(BatchFailed, match="1 of 3 records for topic 'orders'") as failed:
        under_way.future.result(0)
    assert [each.offset for each in failed.value.delivered] == [0, 1]


def test_reports_from_two_threads_resolve_the_future_once() -> None:
    for _ in range(20):
        resolved: list[Any] = []
        under_way = receipt()
        under_way.future.add_done_callback(resolved.append)

        def reports(under_way: BatchReceipt = under_way) -> None:
            for offset in range(600):
                under_way.report(None, message(offset))

        threads = [threading.Thread(target=reports) for _ in range(2)]
        for thread in threads:
            thread.start()
        under_way.handed_over(1200)
        under_way.complete()
        for thread in threads:
            thread.join()

        assert len(under_way.future.result(0)) == 1200
        assert len(resolved) == 1


class TakenMeanwhile(list[Any]):
    """Callbacks that another thread takes out between the look at them and the pop."""

    def __bool__(self) -> bool:
        there = len(self) > 0
        self.clear()
        return there

    def pop(self, index: Any = -1) -> Any:
        self.clear()
        return super().pop(index)


def test_a_callback_that_its_adder_takes_back_at_the_last_moment_breaks_nothing() -> None:
    future = SendFuture("here", lambda *_: None)
    future._done_callbacks = TakenMeanwhile([print])

    future(None, message(3))

    assert future.result(1).offset == 3


class MadeMeanwhile(SendFuture):
    """Another thread makes the delivery of the message, and lets go of it, after the first look at it."""

    _looks = 0

    @property  # type: ignore[override]
    def _message(self) -> Message | None:
        self._looks += 1
        return message(3) if self._looks == 1 else None

    @_message.setter
    def _message(self, value: Message | None) -> None:
        pass


def test_two_threads_that_ask_for_one_delivery_both_get_it() -> None:
    future = MadeMeanwhile("here", lambda *_: None)
    future(None, message(3))

    assert future.result(1).offset == 3
