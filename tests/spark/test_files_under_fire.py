"""Topic to files, exactly once, with kill -9 of an executor amid a write and of the driver amid a commit and amid a merge."""

import os
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.spark.test_exactly_once_under_fire import PARTITIONS, Job
from tests.support.torture import only_in_torture
from tests.support.waiting import until

ROWS = 3000
HOURS = 2  # so many folders, and with two tasks twice as many files to be moved in each commit
ONE_EXECUTOR = "local-cluster[1,2,512]"
HOUR_MS = 3_600_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.spark_processes,
    only_in_torture,
]


class FilesJob(Job):
    """The pipeline in a process group of its own, and what of its folder tells what it is at."""

    script = Path(__file__).with_name("files_job.py")
    query = "main"

    def __init__(self, bootstrap: str, source: str, folder: Path, *master: str) -> None:
        super().__init__(bootstrap, source, str(folder / "files"), folder / "checkpoint", *master)
        self.files = folder / "files"

    @property
    def writes(self) -> bool:
        """Tasks write rows aside."""
        return any(self.files.glob("_headrace/staging/*/_temporary/0/_temporary/*"))

    @property
    def commits(self) -> bool:
        """Files are being moved to where readers see them."""
        notes = {path.name for path in self.files.glob("_headrace/*/*.json")}
        return any(name.endswith(".open.json") and name.replace(".open.", ".done.") not in notes for name in notes)

    @property
    def merges(self) -> bool:
        """A merged file takes the place of several."""
        return any(self.files.glob("_headrace/merges/*.json"))

    def executors(self) -> list[int]:
        """The processes in which Spark runs tasks, where that is not the driver's own."""
        return list(self.members(lambda command: b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in command))

    def wait_until(self, reached: Callable[[], bool]) -> None:
        def is_reached() -> bool:
            assert self.running, f"the pipeline ended too early: {self.said()}"
            return reached()

        until(is_reached, lambda: f"the moment to kill it: {self.said()}", 240, every_s=0.003)

    def kill_when(self, reached: Callable[[], bool]) -> None:
        """Hold it still at the moment wanted, look whether it still is the moment, and let it run on if not."""
        assert self._process is not None
        while True:
            self.wait_until(reached)
            os.killpg(self._process.pid, signal.SIGSTOP)
            if reached():
                break
            os.killpg(self._process.pid, signal.SIGCONT)
        self.kill()


def fill_hours(bootstrap: str) -> str:
    """A source with numbered rows whose timestamps lie in several hours."""
    source = f"fire-{uuid.uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(source, PARTITIONS, 1)])[source].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    now = int(time.time() * 1000)
    for number in range(ROWS):
        timestamp = now - number % HOURS * HOUR_MS
        producer.produce(source, b"%d" % number, partition=number % PARTITIONS, timestamp=timestamp)
    assert producer.flush(30) == 0
    return source


def assert_every_row_once_in_files(folder: Path) -> None:
    """Read as any reader would, which knows nothing of our notes."""
    files = [path for path in folder.glob("**/*.parquet") if not path.relative_to(folder).parts[0].startswith("_")]
    found = Counter(int(value.as_py()) for path in files for value in pq.read_table(path, columns=["value"])["value"])
    assert found == Counter(range(ROWS))
    assert not list(folder.glob("_headrace/**/*.open.json"))
    assert not list(folder.glob("_headrace/merges/*.json"))


def kill_all(processes: list[int]) -> int:
    for process in processes:
        os.kill(process, signal.SIGKILL)
    return len(processes)


def test_an_executor_killed_amid_a_write_and_a_driver_killed_amid_a_commit_and_amid_a_merge(
    bootstrap: str, tmp_path: Path
) -> None:
    source = fill_hours(bootstrap)
    job = FilesJob(bootstrap, source, tmp_path, ONE_EXECUTOR)
    again = FilesJob(bootstrap, source, tmp_path)
    try:
        job.start()
        job.wait_until(lambda: job.writes)
        assert kill_all(job.executors()) == 1
        job.kill_when(lambda: job.commits)
        assert job.commits
        again.start()
        again.kill_when(lambda: again.merges)
        assert again.merges
        again.start()
        again.finish()
    finally:
        job.stop()
        again.stop()

    assert_every_row_once_in_files(again.files)
