"""Partitions: what goes in and out of them, how large they are, and who waits for them; on the page of details, one by one."""

from collections.abc import Iterable

from headrace.broker.following.sessions import ReplicaSessions
from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.metrics.figures import ApiFigures, Traffic, WriteFigures
from headrace.broker.partitions.partition import Partition
from headrace.log.log import Log
from headrace.metrics.families import counter, gauge, histogram
from headrace.metrics.scrape import Scrape
from headrace.model.errors import ErrorCode

PRODUCED_RECORDS = counter("headrace_produced_records_total", "Records written to partitions that this broker leads.")
PRODUCED_BYTES = counter("headrace_produced_bytes_total", "Bytes of record batches written to partitions that this broker leads.")
CONSUMED_RECORDS = counter(
    "headrace_consumed_records_total",
    "Records sent to consumers, counted by their offsets: gaps that compaction left count, too.",
)
CONSUMED_BYTES = counter("headrace_consumed_bytes_total", "Bytes of record batches sent to consumers.")
REPLICATED_IN = counter("headrace_replicated_in_bytes_total", "Bytes of record batches copied from other leaders.")
REPLICATED_OUT = counter("headrace_replicated_out_bytes_total", "Bytes of record batches sent to followers.")
BATCH_BYTES = histogram("headrace_batch_size_bytes", "Size of the batches written, as they are stored.")
BATCH_RECORDS = histogram("headrace_batch_records", "Records in the batches written.")
DUPLICATES = counter(
    "headrace_duplicate_batches_total", "Batches that an idempotent producer sent again, and that were not written twice."
)
FAILURES = counter(
    "headrace_append_failures_total", "Batches of producers that were refused, or not confirmed, by error.", "error"
)
CORRUPT = counter(
    "headrace_corrupt_batches_total",
    "Batches that were not what their checksum says, by where that was seen: produce, read (from this disk) or replication.",
    "where",
)
WAITING = gauge(
    "headrace_appends_waiting", "Appends whose producers wait for what they asked for: a flush, or all in-sync replicas.", "for"
)
SESSIONS = gauge("headrace_fetch_sessions", "Fetch sessions of followers.")
SESSION_PARTITIONS = gauge("headrace_fetch_session_partitions", "Partitions in the fetch sessions of followers.")
LOG_BYTES = gauge("headrace_log_size_bytes", "Size of all logs.")
SEGMENTS = gauge("headrace_log_segments", "Segments of all logs.")
UNFLUSHED = gauge("headrace_unflushed_records", "Records written and not yet on the disk for certain.")

ONE = ("topic", "partition")
ONE_PRODUCED_RECORDS = counter("headrace_partition_produced_records_total", "Records written to a partition as its leader.", *ONE)
ONE_PRODUCED_BYTES = counter(
    "headrace_partition_produced_bytes_total", "Bytes of batches written to a partition as its leader.", *ONE
)
ONE_CONSUMED_RECORDS = counter("headrace_partition_consumed_records_total", "Records of a partition sent to consumers.", *ONE)
ONE_CONSUMED_BYTES = counter("headrace_partition_consumed_bytes_total", "Bytes of a partition sent to consumers.", *ONE)
ONE_START = gauge("headrace_partition_start_offset", "The first offset that may be read.", *ONE)
ONE_HIGH_WATERMARK = gauge("headrace_partition_high_watermark", "The offset up to which consumers may read.", *ONE)
ONE_END = gauge("headrace_partition_end_offset", "The offset that the next record gets.", *ONE)
ONE_BYTES = gauge("headrace_partition_size_bytes", "Size of a partition's log on this broker.", *ONE)
ONE_SEGMENTS = gauge("headrace_partition_segments", "Segments of a partition's log on this broker.", *ONE)
DETAILS = (
    ONE_PRODUCED_RECORDS,
    ONE_PRODUCED_BYTES,
    ONE_CONSUMED_RECORDS,
    ONE_CONSUMED_BYTES,
    ONE_START,
    ONE_HIGH_WATERMARK,
    ONE_END,
    ONE_BYTES,
    ONE_SEGMENTS,
)


class PartitionsCollector:
    """All replicas on this broker."""

    def __init__(
        self,
        replicas: Iterable[Partition],
        gone: Traffic,
        writes: WriteFigures,
        produce: ApiFigures,
        sessions: ReplicaSessions,
    ) -> None:
        """`gone` is what partitions did that are no longer here; `produce` is what is known of Produce requests."""
        self._replicas = replicas
        self._gone = gone
        self._writes = writes
        self._produce = produce
        self._sessions = sessions

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        return self._one_by_one(scrape) if page is Page.DETAIL else self._summary(scrape)

    def _summary(self, scrape: Scrape) -> Collecting:
        self._batches(scrape)
        gone = self._gone
        produced_records, produced_bytes = gone.records_in, gone.bytes_in
        consumed_records, consumed_bytes = gone.records_out, gone.bytes_out
        replicated_in, replicated_out = gone.replicated_in, gone.replicated_out
        size = segments = unflushed = for_flush = for_replicas = 0
        for partition in list(self._replicas):
            traffic, log = partition.traffic, partition.log
            produced_records += traffic.records_in
            produced_bytes += traffic.bytes_in
            consumed_records += traffic.records_out
            consumed_bytes += traffic.bytes_out
            replicated_in += traffic.replicated_in
            replicated_out += traffic.replicated_out
            size += log.size_bytes
            segments += segments_of(partition)
            unflushed += log.unflushed_messages
            for_flush += len(partition.flushed)
            for_replicas += len(partition.committed)
            yield
        scrape.add(PRODUCED_RECORDS, produced_records)
        scrape.add(PRODUCED_BYTES, produced_bytes)
        scrape.add(CONSUMED_RECORDS, consumed_records)
        scrape.add(CONSUMED_BYTES, consumed_bytes)
        scrape.add(REPLICATED_IN, replicated_in)
        scrape.add(REPLICATED_OUT, replicated_out)
        scrape.add(LOG_BYTES, size)
        scrape.add(SEGMENTS, segments)
        scrape.add(UNFLUSHED, unflushed)
        scrape.add(WAITING, for_flush, "flush")
        scrape.add(WAITING, for_replicas, "replicas")

    def _batches(self, scrape: Scrape) -> None:
        writes, errors = self._writes, self._produce.errors
        scrape.add(BATCH_BYTES, writes.batch_bytes.taken())
        scrape.add(BATCH_RECORDS, writes.batch_records.taken())
        scrape.add(DUPLICATES, writes.duplicates)
        scrape.rows(FAILURES)
        for code, count in errors.items():
            scrape.add(FAILURES, count, ErrorCode(code).name)
        scrape.add(CORRUPT, errors.get(ErrorCode.CORRUPT_MESSAGE, 0), "produce")
        for where in ("read", "replication"):
            scrape.add(CORRUPT, writes.corrupt[where], where)
        scrape.add(SESSIONS, len(self._sessions))
        scrape.add(SESSION_PARTITIONS, self._sessions.partition_count)

    def _one_by_one(self, scrape: Scrape) -> Collecting:
        rows = scrape.rows(*DETAILS)
        for partition in list(self._replicas):
            traffic, log = partition.traffic, partition.log
            rows.append(
                (
                    (partition.identity.topic, partition.identity.partition),
                    (
                        traffic.records_in,
                        traffic.bytes_in,
                        traffic.records_out,
                        traffic.bytes_out,
                        log.start_offset,
                        partition.high_watermark,
                        log.end_offset,
                        log.size_bytes,
                        segments_of(partition),
                    ),
                )
            )
            yield


def segments_of(partition: Partition) -> int:
    """How many files of records a log has; in memory it is one piece."""
    return len(partition.log.segments) if isinstance(partition.log, Log) else 1
