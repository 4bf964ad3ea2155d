"""What is told of queries to Prometheus: the families, and a page of them.  Needs no Spark."""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from headrace.metrics.families import counter, gauge
from headrace.metrics.rendering import Form, rendered
from headrace.metrics.scrape import Scrape, Value

ROWS = counter("headrace_query_rows_total", "Rows read from the source.", "query")
BYTES = counter("headrace_query_bytes_total", "Bytes of keys and values read from the source.", "query")
BATCHES = counter("headrace_query_batches_total", "Batches that ended, counted by their numbers.", "query")
LAG = gauge("headrace_query_lag_records", "Records between where the query is and where the logs end.", "query")
BATCH = gauge("headrace_query_batch_seconds", "How long the last batch took.", "query")
WATERMARK = gauge(
    "headrace_query_watermark_seconds", "The watermark, in seconds since 1970; absent where the query has none.", "query"
)
LATE_ROWS = counter("headrace_query_late_rows_total", "Rows that came after the watermark and were left out.", "query")
FAMILIES = (ROWS, BYTES, BATCHES, LAG, BATCH, WATERMARK, LATE_ROWS)


class Figures(Protocol):
    """A query after its last trigger."""

    @property
    def name(self) -> str: ...
    @property
    def batch(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def batch_ms(self) -> int: ...
    @property
    def lag(self) -> int: ...
    @property
    def watermark(self) -> str | None: ...
    @property
    def late_rows(self) -> int: ...


def query_page(found: Iterable[Figures], form: Form = Form.TEXT) -> bytes:
    """All queries, in one of the two formats."""
    scrape = Scrape()
    rows = scrape.rows(*FAMILIES)
    rows.extend(((one.name,), _row(one)) for one in found)
    return b"".join(rendered(scrape, form))


def _row(one: Figures) -> tuple[Value, ...]:
    watermark = None if one.watermark is None else datetime.fromisoformat(one.watermark).timestamp()
    return one.rows, one.bytes, one.batch + 1, one.lag, one.batch_ms / 1000, watermark, one.late_rows
