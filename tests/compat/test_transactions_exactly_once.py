"""Consume, transform, produce in transactions, while workers and the broker are killed with `kill -9` at random moments: the
output is exactly the image of the input, each record once.

HEADRACE_TORTURE_ROUNDS sets how many kills.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.compat.transaction_readers import WAIT_S, create_topic, read_all
from tests.support.process import BrokerProcess
from tests.support.waiting import until

ROUNDS = int(os.environ.get("HEADRACE_TORTURE_ROUNDS", "4"))
RECORDS = 400 * ROUNDS
PARTITIONS = 3
WORKERS = 2
FINISH_SECONDS_MAX = 60.0 + 5.0 * ROUNDS
SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
WORKER = Path(__file__).parent / "transaction_worker_process.py"


class Worker:
    """A worker's place: whoever dies in it is replaced by another with the same transactional id."""

    def __init__(self, number: int, bootstrap: str, source: str, target: str, log: Path) -> None:
        self._arguments = [bootstrap, source, target, f"group-of-{source}", f"worker-{number}-of-{source}"]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def keep_running(self) -> None:
        if self._process is None or self._process.poll() is not None:
            with self._log.open("ab") as output:
                self._process = subprocess.Popen(
                    [sys.executable, str(WORKER), *self._arguments], stdout=output, stderr=subprocess.STDOUT
                )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()


def fill(bootstrap: str, source: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce(source, str(number), key=str(number % 50), partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def consumed(bootstrap: str, source: str) -> int:
    """How many records of the input are behind the group's offsets."""
    watcher = Consumer({"bootstrap.servers": bootstrap, "group.id": f"group-of-{source}", "isolation.level": "read_committed"})
    try:
        partitions = [TopicPartition(source, index) for index in range(PARTITIONS)]
        return sum(max(partition.offset, 0) for partition in watcher.committed(partitions, WAIT_S))
    finally:
        watcher.close()


def is_all_consumed(bootstrap: str, source: str, workers: list[Worker]) -> bool:
    for worker in workers:
        worker.keep_running()
    return consumed(bootstrap, source) >= RECORDS


def wreak_havoc(broker: BrokerProcess, workers: list[Worker], chance: random.Random) -> None:
    for number in range(ROUNDS):
        time.sleep(chance.uniform(0.4, 1.6))
        for worker in workers:
            worker.keep_running()
        if number % 2:
            broker.kill()
            broker.start()
        else:
            chance.choice(workers).kill()


def test_the_output_is_exactly_the_image_of_the_input_whoever_is_killed(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        source, target = "input", "output"
        create_topic(broker.bootstrap, source, target, partitions=PARTITIONS)
        fill(broker.bootstrap, source)
        workers = [Worker(number, broker.bootstrap, source, target, tmp_path / "workers.log") for number in range(WORKERS)]
        try:
            for worker in workers:
                worker.keep_running()
            wreak_havoc(broker, workers, random.Random(seed))
            until(
                lambda: is_all_consumed(broker.bootstrap, source, workers),
                lambda: f"all {RECORDS} are done (seed {seed}):\n{(tmp_path / 'workers.log').read_text()}",
                FINISH_SECONDS_MAX,
                every_s=0.2,
            )
        finally:
            for worker in workers:
                worker.stop()
        committed = [value for values in read_all(broker.bootstrap, target, partitions=PARTITIONS) for value in values]
        everything = [
            value
            for values in read_all(broker.bootstrap, target, partitions=PARTITIONS, isolation="read_uncommitted")
            for value in values
        ]

    wrong = {value: count for value, count in Counter(committed).items() if count != 1}
    assert wrong == {}, f"seed {seed}"
    assert sorted(committed, key=lambda value: int(value[:-1])) == [f"{number}!" for number in range(RECORDS)], f"seed {seed}"
    assert len(everything) > len(committed), "a reader of everything sees what was aborted, too"
    assert set(everything) == set(committed)
