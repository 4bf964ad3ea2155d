"""One Spark session and one broker for all tests here.

The broker is ours, in this process; `HEADRACE_TEST_BOOTSTRAP=host:port` runs the same tests against any other that speaks the
protocol, Apache Kafka for one.
"""

import os
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from headrace.spark import worker_process
from headrace.spark.pipeline.session import LOCAL_SETTINGS, SETTINGS
from tests.spark.interrupted import forget_calls_under_way
from tests.spark.java_archive import SHORT_LIVED, java_options
from tests.spark.pipelines import Pipelines

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

HERE = Path(__file__).parent

# What a test calls here itself sets nothing aside: Hypothesis asks the collector who refers to what.
worker_process._settled_in = os.getpid()
# The first test waits for a Java that starts and compiles itself while four other workers want the same two cores.
SECONDS_MAX = 300


os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED)
os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())


# When an item is made, not when all are: by then pytest-xdist has looked for groups.
def pytest_itemcollected(item: pytest.Item) -> None:
    """Two groups for two workers: tests that share one session, and tests that start a Java of their own."""
    own_process = item.get_closest_marker("spark_processes") is not None
    item.add_marker(pytest.mark.spark)
    item.add_marker(pytest.mark.xdist_group("spark-processes" if own_process else "spark"))
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(SECONDS_MAX))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Iterator[Any]:
    """A test that is cut short must not take all later ones with it."""
    if call.excinfo is not None and not isinstance(call.excinfo.value, Exception):
        forget_calls_under_way()
    return (yield)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """The address of the broker under test."""
    given = os.environ.get("HEADRACE_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    from headrace.testing import Broker

    # As in tests/conftest.py: records of long ago stay.
    with Broker(memory=False, settings={"log.retention.check.interval.ms": 3_600_000}) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("headrace-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    for name, value in (SETTINGS | LOCAL_SETTINGS | {"spark.log.level": "OFF"}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


class TopicMaker(Protocol):
    def __call__(self, partitions: int = 1, *, name: str | None = None, **configs: str) -> str: ...


@pytest.fixture
def make_topic(admin: AdminClient) -> TopicMaker:
    """Create a topic with a name of its own."""

    def make(partitions: int = 1, *, name: str | None = None, **configs: str) -> str:
        topic = name or f"spark-{uuid.uuid4().hex[:12]}"
        settings = {setting.replace("_", "."): value for setting, value in configs.items()}
        admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
        return topic

    return make


@pytest.fixture
def delete_topic(admin: AdminClient) -> Callable[[str], None]:
    def delete(topic: str) -> None:
        admin.delete_topics([topic])[topic].result(30)

    return delete


class RecordWriter(Protocol):
    def __call__(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        partition: int | Sequence[int] = 0,
        timestamps: Sequence[int] | None = None,
        headers: Sequence[Sequence[tuple[str, bytes | None]] | None] | None = None,
    ) -> None: ...


@pytest.fixture
def produce(bootstrap: str) -> RecordWriter:
    """Write records and wait until they are in the log."""

    def write(
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        partition: int | Sequence[int] = 0,
        timestamps: Sequence[int] | None = None,
        headers: Sequence[Sequence[tuple[str, bytes | None]] | None] | None = None,
    ) -> None:
        # A producer of its own each time: one that is kept knows nothing of partitions added since.
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        for index, value in enumerate(values):
            extra: dict[str, Any] = {}
            if timestamps is not None:
                extra["timestamp"] = timestamps[index]
            if headers is not None and headers[index] is not None:
                extra["headers"] = headers[index]
            where = partition if isinstance(partition, int) else partition[index]
            producer.produce(topic, value, None if keys is None else keys[index], where, **extra)
        assert producer.flush(30) == 0

    return write


class Transaction(Protocol):
    def __call__(self, topic: str, values: Sequence[bytes], *, commit: bool, partition: int = 0) -> None: ...


@pytest.fixture
def transact(bootstrap: str) -> Transaction:
    """Write records in a transaction of their own, and end it one way or the other."""

    def write(topic: str, values: Sequence[bytes], *, commit: bool, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"test-{uuid.uuid4()}", "linger.ms": 5})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=partition)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)

    return write


class FrameReader(Protocol):
    def __call__(self, topic: str | None = None, **options: Any) -> DataFrame: ...


@pytest.fixture
def read(spark: SparkSession, bootstrap: str) -> FrameReader:
    """A batch read of a topic; `kafka__isolation__level` stands for `kafka.isolation.level`."""

    def load(topic: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("headrace").option("kafka.bootstrap.servers", bootstrap)
        if topic is not None:
            reader = reader.option("subscribe", topic)
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        return reader.load()

    return load


@pytest.fixture
def read_stream(spark: SparkSession, bootstrap: str) -> FrameReader:
    def load(topic: str | None = None, **options: Any) -> DataFrame:
        reader = spark.readStream.format("headrace").option("kafka.bootstrap.servers", bootstrap)
        if topic is not None:
            reader = reader.option("subscribe", topic)
        for name, value in ({"startingOffsets": "earliest"} | options).items():
            reader = reader.option(name.replace("__", "."), value)
        return reader.load()

    return load


@pytest.fixture
def committed_values(bootstrap: str) -> Callable[..., list[bytes]]:
    """Everything in a topic under read_committed, read by a plain client."""

    def values(topic: str, partitions: int = 1) -> list[bytes]:
        return [message.value() for message in committed_messages(bootstrap, topic, partitions)]

    return values


def committed_messages(bootstrap: str, topic: str, partitions: int = 1) -> list[Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"check-{uuid.uuid4()}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                found.append(message)
            else:
                ended += 1
    consumer.close()
    return found


@pytest.fixture
def pipelines(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Pipelines:
    return Pipelines(spark, bootstrap, tmp_path)
