"""What `read_committed` readers are told of aborted transactions, in a log of many segments, at every offset, against a model."""

import random
from dataclasses import dataclass

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.records.batch import iterate_batches
from headrace.testing import Broker
from tests.integration.transaction_wire import Teller

PRODUCERS = 4
STEPS = 160
FETCH_BYTES = 700


@dataclass
class Open:
    """A transaction that has written something."""

    first_offset: int
    sequence: int = 0


class Story:
    """Producers that write and end their transactions in any order, and what must come of it."""

    def __init__(self, teller: Teller, partition: TopicPartition, chance: random.Random) -> None:
        self.teller = teller
        self.partition = partition
        self.chance = chance
        self.identities = {name: teller.identity(name) for name in (f"{partition.topic}-{n}" for n in range(PRODUCERS))}
        self.open: dict[str, Open] = {}
        self.aborted: list[tuple[int, int, int]] = []  # producer id, first offset, offset of the marker
        self.end = 0

    def run(self) -> None:
        for _ in range(STEPS):
            name = self.chance.choice(sorted(self.identities))
            if name in self.open and self.chance.random() < 0.4:
                self._finish(name, committed=self.chance.random() < 0.4)
            else:
                self._write(name)
        for name in sorted(self.open):
            self._finish(name, committed=False)

    def _write(self, name: str) -> None:
        begun = self.open.setdefault(name, Open(self.end))
        values = [b"%d" % self.end] * self.chance.randint(1, 3)
        written = self.teller.produce(name, self.identities[name], self.partition, *values, sequence=begun.sequence)
        assert written == (ErrorCode.NONE, self.end)
        begun.sequence += len(values)
        self.end += len(values)

    def _finish(self, name: str, *, committed: bool) -> None:
        begun = self.open.pop(name)
        producer_id, _ = self.identities[name]
        ended = self.teller.end(name, self.identities[name], committed=committed)
        assert ended.error_code == ErrorCode.NONE
        self.identities[name] = (ended.producer_id, ended.producer_epoch)
        while self.teller.end_offset(self.partition, committed=False) == self.end:
            pass  # the marker follows the answer
        if not committed:
            self.aborted.append((producer_id, begun.first_offset, self.end))
        self.end += 1

    def check(self, teller: Teller) -> int:
        """Compare every fetch with the model; how many transactions were named in all."""
        named = 0
        for offset in range(self.end):
            data = teller.fetch(self.partition, offset, max_bytes=FETCH_BYTES)
            upper = max(header.next_offset for header, _ in iterate_batches(data.records))
            expected = {(producer, first) for producer, first, last in self.aborted if last >= offset and first < upper}
            told = [(each.producer_id, each.first_offset) for each in data.aborted_transactions]

            assert len(told) == len(set(told))
            assert set(told) == expected, f"from {offset} to {upper}"
            named += len(told)
        return named


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_fetch_names_exactly_the_aborted_transactions_of_its_range(topic: str, seed: int) -> None:
    partition = TopicPartition(topic, 0)
    with Broker(memory=False) as broker:
        with Teller(broker.bootstrap) as teller:
            teller.create_topic(topic, internal_segment_bytes="2000")
            story = Story(teller, partition, random.Random(seed))
            story.run()
            before = story.check(teller)
            segments = len(list((broker.data / f"{topic}-0").glob("*.log")))
        broker.restart()
        with Teller(broker.bootstrap) as teller:
            after_restart = story.check(teller)
        broker.abandon()
        broker.start()
        with Teller(broker.bootstrap) as teller:
            after_crash = story.check(teller)

    assert segments > 3
    assert before > 20
    assert before == after_restart == after_crash


def test_a_log_in_memory_names_them_just_so(broker: Broker, topic: str) -> None:
    with Teller(broker.bootstrap) as teller:
        teller.create_topic(topic)
        story = Story(teller, TopicPartition(topic, 0), random.Random(4))
        story.run()

        assert story.check(teller) > 20
