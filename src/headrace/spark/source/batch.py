"""`spark.read.format("headrace")`: a range of offsets per partition, planned once, read by tasks."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from headrace.client.positions import Position
from headrace.model.identity import TopicPartition
from headrace.spark.cluster import Cluster
from headrace.spark.options.options import SourceOptions
from headrace.spark.source.filters import Bounds, bounds_of
from headrace.spark.source.plan import OffsetRange, ranges_between, split
from headrace.spark.source.reader import input_partitions, read_partition
from headrace.spark.source.rows import arrow_schema
from headrace.spark.source.subscription import Subscribed, resolve, subscribed


class BatchReader(DataSourceReader):
    """Plans and reads one batch query."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = arrow_schema(schema)
        self._bounds = Bounds()
        # An attribute, since Spark refuses a reader class that overrides the method while its setting is off: see PushDown.
        self.pushFilters = PushDown(self)  # type: ignore[method-assign]

    def take_filters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._bounds, remaining = bounds_of(filters)
        return remaining

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with closing(
            Cluster(options.client, read_committed=options.read_committed, connect_timeout_ms=options.connect_timeout_ms)
        ) as cluster:
            return self._partitions(cluster)

    def _partitions(self, cluster: Cluster) -> Sequence[InputPartition]:
        options = self._options
        found = subscribed(cluster, options, options.connect_timeout_ms)
        wanted = [one for one in found.partitions if _within(one, self._bounds)]
        starts = resolve(cluster, options, options.starting, wanted, latest_is_end=False)
        ends = resolve(cluster, options, options.ending, wanted, latest_is_end=True)
        ranges = ranges_between(starts, {one: max(end, starts[one]) for one, end in ends.items()})
        ranges = [one for one in self._narrowed(cluster, ranges, found) if one.size > 0]
        ranges = split(ranges, partitions_min=options.partitions_min, records_max=options.records_per_partition_max)
        return input_partitions(ranges, found.leaders, now_ms=int(time.time() * 1000))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options, self._schema)

    def _narrowed(self, cluster: Cluster, ranges: list[OffsetRange], found: Subscribed) -> Iterator[OffsetRange]:
        """The ranges within the bounds that the query's filters set."""
        bounds = self._bounds
        froms, belows = self._seek_times(cluster, [one.partition for one in ranges], found)
        for one in ranges:
            start = max(one.start, bounds.offset_min, froms.get(one.partition, 0))
            end = min(one.end, belows.get(one.partition, one.end), one.end if bounds.offset_end is None else bounds.offset_end)
            yield OffsetRange(partition=one.partition, start=start, end=max(start, end))

    def _seek_times(
        self, cluster: Cluster, partitions: list[TopicPartition], found: Subscribed
    ) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
        """Where the timestamps wanted begin, and where they end if timestamps never fall."""
        bounds, timeout_ms = self._bounds, self._options.connect_timeout_ms
        froms: dict[TopicPartition, int] = {}
        belows: dict[TopicPartition, int] = {}
        if bounds.timestamp_min_ms is not None and partitions:
            none_so_late = 2**63 - 1
            answers = cluster.find(dict.fromkeys(partitions, Position("time", max(0, bounds.timestamp_min_ms))), timeout_ms)
            froms = {one: none_so_late if offset is None else offset for one, offset in answers.items()}
        topics = {one.topic for one in partitions}
        if bounds.timestamp_end_ms is not None and partitions and cluster.timestamps_never_fall(topics, timeout_ms):
            answers = cluster.find(dict.fromkeys(partitions, Position("time", max(0, bounds.timestamp_end_ms))), timeout_ms)
            belows = {one: offset for one, offset in answers.items() if offset is not None}
        return froms, belows


class PushDown:
    """Takes filters where Spark offers them (`spark.sql.python.filterPushdown.enabled`), and is not missed where it does not.

    Spark fails a plain read when a reader overrides `pushFilters` while that setting is off, which is its default.  It looks at
    `__func__` to tell; naming the base method there says "nothing to miss", and calling this still pushes.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)  # static, so that looking it up does not bind it

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._reader.take_filters(filters)

    def __reduce__(self) -> tuple[Any, ...]:
        return (PushDown, (self._reader,))


def _within(one: TopicPartition, bounds: Bounds) -> bool:
    of_topic = bounds.topics is None or one.topic in bounds.topics
    return of_topic and (bounds.partitions is None or one.partition in bounds.partitions)
