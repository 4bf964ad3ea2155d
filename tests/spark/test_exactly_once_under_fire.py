"""Exactly once, with kill -9 of Python workers, of the driver and of the broker in the middle of batches."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.spark.conftest import committed_messages
from tests.support.callers import wait_for_callers
from tests.support.process import BrokerProcess
from tests.support.torture import only_in_torture
from tests.support.waiting import until

ROWS = 9000
PARTITIONS = 2
JOB = Path(__file__).with_name("exactly_once_job.py")

# Each takes a minute of two cores; `make test` kills the driver, which takes its workers along.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.spark_processes]


class Job:
    """The query in a process group of its own."""

    script = JOB
    query = ""  # the query's folder below the checkpoint

    def __init__(self, bootstrap: str, source: str, sink: str, checkpoint: Path, *master: str) -> None:
        self._arguments = [sys.executable, str(self.script), bootstrap, source, sink, str(checkpoint), *master]
        self._process: subprocess.Popen[bytes] | None = None
        self._checkpoint = checkpoint
        self._log = checkpoint.with_suffix(".log")

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._arguments, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """Driver, Java and workers at once, as when the machine goes down."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)
        for worker in self.workers():
            os.kill(worker, signal.SIGKILL)

    def kill_amid_a_batch(self) -> None:
        """Hold it still, look whether a batch has begun that is not done, and let it run on for a moment if not."""
        until(self._stands_still_amid_a_batch, "a batch has begun and is not done", 120, every_s=0.05)
        self.kill()

    def _stands_still_amid_a_batch(self) -> bool:
        assert self._process is not None
        assert self.running, "the query ended before it was killed"
        os.killpg(self._process.pid, signal.SIGSTOP)
        is_amid = self._last("offsets") > self._last("commits")
        if not is_amid:
            os.killpg(self._process.pid, signal.SIGCONT)
        return is_amid

    def _last(self, what: str) -> int:
        names = (path.name for path in (self._checkpoint / self.query / what).glob("*"))
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def finish(self) -> None:
        assert self._process is not None
        try:
            assert self._process.wait(200) == 0, self.said()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the query did not end: {self.said()}") from None

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        if self.running:
            self.kill()

    def workers(self) -> list[int]:
        """The Python processes that run tasks: children of pyspark.daemon in this job's session."""
        forks = self.members(lambda command: b"pyspark.daemon" in command and b"pyspark.worker" in command)
        return [pid for pid, parent in forks.items() if _command(parent).count(b"pyspark.daemon") == 1]

    def members(self, wanted: Callable[[list[bytes]], bool]) -> dict[int, int]:
        """The processes of this job's session, by what they were started with, each with its parent."""
        assert self._process is not None
        found = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                command = (stat.parent / "cmdline").read_bytes().split(b"\0")
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parent, session = int(fields[1]), int(fields[3])
            if session == self._process.pid and wanted(command):
                found[int(stat.parent.name)] = parent
        return found


def _command(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def fill(bootstrap: str) -> tuple[str, str]:
    """A source with numbered rows, and an empty sink."""
    source, sink = (f"fire-{uuid.uuid4().hex[:10]}" for _ in range(2))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(source, PARTITIONS, 1), NewTopic(sink, PARTITIONS, 1)]).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(ROWS):
        producer.produce(source, b"%d" % number, b"%d" % (number % 97), partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return source, sink


def written(bootstrap: str, sink: str) -> int:
    """How far the sink's logs go, whatever of it is committed; 0 while the broker is away."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "watch", "log_level": 0})
    try:
        ends = [consumer.get_watermark_offsets(TopicPartition(sink, number), 5)[1] for number in range(PARTITIONS)]
        return sum(ends)
    except KafkaException:
        return 0
    finally:
        consumer.close()


def wait_until_written(bootstrap: str, sink: str, rows: int, job: Job) -> None:
    def is_written() -> bool:
        assert job.running, "the query ended before it was killed"
        return written(bootstrap, sink) >= rows

    until(is_written, f"{rows} rows are written", 120, every_s=0.05)


def assert_every_row_once(bootstrap: str, sink: str) -> None:
    found = sorted(int(message.value()) for message in committed_messages(bootstrap, sink, PARTITIONS))
    assert found == list(range(ROWS))


@pytest.fixture
def start_job(tmp_path: Path) -> Iterator[Callable[[str, str, str], Job]]:
    jobs: list[Job] = []

    def start(bootstrap: str, source: str, sink: str) -> Job:
        job = Job(bootstrap, source, sink, tmp_path / "checkpoint")
        job.start()
        jobs.append(job)
        return job

    yield start
    for job in jobs:
        job.stop()


@only_in_torture
def test_killed_python_workers(bootstrap: str, start_job: Callable[[str, str, str], Job]) -> None:
    source, sink = fill(bootstrap)
    job = start_job(bootstrap, source, sink)
    killed = 0
    for rows in (500, 3500):
        wait_until_written(bootstrap, sink, rows, job)
        for worker in job.workers():
            os.kill(worker, signal.SIGKILL)
            killed += 1
    job.finish()

    assert killed >= 2
    assert_every_row_once(bootstrap, sink)


def test_killed_driver(bootstrap: str, start_job: Callable[[str, str, str], Job]) -> None:
    source, sink = fill(bootstrap)
    job = start_job(bootstrap, source, sink)
    wait_until_written(bootstrap, sink, 4000, job)  # the first batch is done, the second is not
    job.kill_amid_a_batch()
    job.start()
    job.finish()

    assert_every_row_once(bootstrap, sink)


@only_in_torture
def test_killed_broker(tmp_path: Path, start_job: Callable[[str, str, str], Job]) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        source, sink = fill(broker.bootstrap)
        job = start_job(broker.bootstrap, source, sink)
        for rows in (600, 4000):
            wait_until_written(broker.bootstrap, sink, rows, job)
            broker.kill()
            wait_for_callers(broker.bootstrap, 1)
            broker.start()
        job.finish()

        assert_every_row_once(broker.bootstrap, sink)
