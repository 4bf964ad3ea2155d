"""The topic that records are replayed into: it has the partitions of the one that they came from."""

from collections.abc import Mapping
from contextlib import closing

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.spark.cluster import Cluster
from headrace.spark.errors import PipelineError
from headrace.spark.options.options import SinkOptions, sink_options


def require_target(rows: DataFrame, options: Mapping[str, str]) -> bool:
    """Create the target where it is missing, refuse one that is too small; False when there are no rows.

    It gets as many partitions as the topic that the rows came from, where that one still exists, and never fewer than the rows
    need.  Created by the brokers at the first write it would have their default, and the rows of partition 1 no place.
    """
    highest = rows.groupBy("topic").agg(F.max("partition").alias("partition")).collect()
    needed = {str(row.topic): int(row.partition) + 1 for row in highest}
    if not needed:
        return False
    sink = sink_options({name.lower(): value for name, value in options.items()})
    with closing(Cluster(sink.client, connect_timeout_ms=sink.connect_timeout_ms)) as cluster:
        _make_ready(cluster, sink, needed)
    return True


def _make_ready(cluster: Cluster, sink: SinkOptions, needed: Mapping[str, int]) -> None:
    counts = cluster.partition_counts(sink.connect_timeout_ms)
    targets = {sink.topic: list(needed)} if sink.topic is not None else {name: [name] for name in needed}
    for target, origins in targets.items():
        least = max(needed[name] for name in origins)
        if target not in counts:
            cluster.create(target, max(least, *(counts.get(name, 0) for name in origins)), sink.connect_timeout_ms)
        elif counts[target] < least:
            raise PipelineError(
                f"topic {target} has {counts[target]} of the {least} partitions that the records come from: "
                "add partitions to it, or name a topic that does not exist yet"
            )
