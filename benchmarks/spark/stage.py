"""What every measurement needs: a broker with data in it, a Spark session, and a watch on the workers' memory."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from headrace.spark.pipeline.session import LOCAL_SETTINGS, SETTINGS

PARTITIONS = 4
KEYS = 1000


@dataclass(frozen=True)
class Stage:
    """Where to measure."""

    spark: SparkSession
    bootstrap: str
    folder: Path
    connector: str | None  # the version of Spark's own connector, when it is there
    scale: float

    def topic(self, record_bytes: int) -> str:
        return f"bench-{record_bytes}"

    def rows(self, record_bytes: int) -> int:
        """About 200 MB of 100-byte records, 300 MB of 1-KiB ones."""
        return int((2_000_000 if record_bytes <= 100 else 300_000) * self.scale)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """`headrace serve` on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-c", "from headrace.cli.main import main; main()", "serve", "--listen", address]
    process = subprocess.Popen([*command, "--data", str(folder / "data")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=30)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def fill(bootstrap: str, topic: str, rows: int, record_bytes: int) -> None:
    """Records of a size, with keys, spread evenly."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 1_000_000, "batch.num.messages": 10_000})
    noise = os.urandom(2 * record_bytes)
    for start in range(0, rows, 5000):
        for partition in range(PARTITIONS):
            messages = [
                {"value": noise[at % record_bytes :][: record_bytes - 8], "key": b"%08d" % (at % KEYS)}
                for at in range(start + partition, min(rows, start + 5000), PARTITIONS)
            ]
            producer.produce_batch(topic, messages, partition=partition)
        while len(producer) > 50_000:
            producer.poll(0.05)
    assert producer.flush(120) == 0


def session(folder: Path, jars: Sequence[Path] = ()) -> SparkSession:
    """local[2], as the figures are defined; with Spark's own connector where its jars are at hand."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("headrace-bench").config("spark.driver.memory", "2g")
    for name, value in (SETTINGS | LOCAL_SETTINGS | {"spark.log.level": "OFF"}).items():
        builder = builder.config(name, value)
    if jars:
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars))
    return builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()


def cpu_seconds() -> float:
    """What the broker, Java and the Python workers have used so far, those that have ended included."""
    ticks = 0
    for process in _descendants(os.getpid()):
        fields = _read(process / "stat").rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


class WorkerMemory:
    """The most memory that one Python worker of this session had while it was watched."""

    def __init__(self) -> None:
        self.most_mb = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "WorkerMemory":
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            for process in _descendants(os.getpid()):
                command = _read(process / "cmdline")
                if "pyspark.daemon" in command and "pyspark.worker" in command:
                    self.most_mb = max(self.most_mb, _resident_mb(process))


def _descendants(root: int) -> list[Path]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _read(stat).rpartition(")")[2].split()
        if len(fields) > 1:
            parents[int(stat.parent.name)] = int(fields[1])
    found: set[int] = set()
    fresh = {root}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh} - found
        found |= fresh
    return [Path(f"/proc/{pid}") for pid in found]


def _resident_mb(process: Path) -> float:
    for line in _read(process / "status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
