"""Partitions move from one broker to another, unthrottled, as `headrace cluster replace` does it."""

import time
from collections.abc import Iterator

from benchmarks.broker.target import data_directory
from benchmarks.broker.throughput import run_client
from headrace.cli.cluster.moves import begin_moves, image_of, wait_for_moves
from headrace.client.admin.wire_admin import WireAdmin
from headrace.controller.balance import replace_broker
from headrace.testing.cluster import ProcessCluster
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

COLUMNS = ("GiB", "partitions", "filled MB/s", "moved s", "moved MB/s", "10 GiB at this rate s")
PARTITIONS = 8
MESSAGE_BYTES = 16_384


def rows(quick: bool, gibibytes: float | None = None) -> Iterator[tuple[object, ...]]:
    size = gibibytes if gibibytes is not None else 0.5 if quick else 10.0
    settings = {"headrace.flush": "os"}
    with (
        data_directory() as directory,
        ProcessCluster(directory / "cluster", broker_count=2, settings=settings) as cluster,
        WireAdmin(cluster.bootstrap, timeout_s=120) as admin,
    ):
        _create_on_first(admin)
        count = int(size * 2**30) // MESSAGE_BYTES
        shape = {"bootstrap": cluster.bootstrap, "topic": "t", "partitions": PARTITIONS}
        filled = run_client("produce", **shape, count=count, size=MESSAGE_BYTES, codec="none")
        image = image_of(admin)
        plan = replace_broker(image, 1, 2)
        began = time.monotonic()
        begin_moves(admin, plan)
        wait_for_moves(admin, image, plan, lambda progress: None)
        seconds = time.monotonic() - began
    total = filled["messages"] * MESSAGE_BYTES
    rate = total / seconds
    yield (
        *(f"{total / 2**30:.2f}", PARTITIONS, f"{total / filled['seconds'] / 1e6:.0f}", f"{seconds:.1f}", f"{rate / 1e6:.0f}"),
        f"{10 * 2**30 / rate:.0f}",
    )


def _create_on_first(admin: WireAdmin) -> None:
    placed = tuple(CreatableReplicaAssignment(partition_index=index, broker_ids=(1,)) for index in range(PARTITIONS))
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=placed, configs=())
    admin.call(CreateTopicsRequest(topics=(topic,)))
