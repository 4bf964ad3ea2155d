"""Rows, bytes and lag of a query, from what Spark tells its listeners.

`watch(spark)` gives an object that keeps the last figures of every query; `Exposition` serves them as Prometheus reads them.
Bytes are counted where the frame is observed (`frame.observe(OBSERVED, *observed_columns())`), which pipelines do.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from headrace.metrics.rendering import form_for
from headrace.spark.query_metrics import query_page

OBSERVED = "headrace"


def observed_columns() -> list[Column]:
    """What is counted of a source's rows while they pass."""
    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
    return [F.count(F.lit(1)).alias("rows"), F.coalesce(F.sum(size), F.lit(0)).alias("bytes")]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFigures:
    """A query after its last trigger; totals since it was started."""

    name: str
    query_id: str
    batch: int
    rows: int
    bytes: int
    rows_per_second: float
    batch_ms: int
    lag: int
    watermark: str | None
    late_rows: int
    at: str


def figures(progress: Mapping[str, Any], before: QueryFigures | None) -> QueryFigures:
    """The figures of a progress report, added to the ones before it."""
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED) or {}
    rows = int(progress.get("numInputRows", 0))
    operators = progress.get("stateOperators") or []
    return QueryFigures(
        name=progress.get("name") or str(progress["id"]),
        query_id=str(progress["id"]),
        batch=int(progress["batchId"]),
        rows=rows + (before.rows if before else 0),
        bytes=int(observed.get("bytes", 0)) + (before.bytes if before else 0),
        rows_per_second=_number(progress.get("processedRowsPerSecond")),
        batch_ms=int((progress.get("durationMs") or {}).get("triggerExecution", 0)),
        lag=sum(lag(source) for source in progress.get("sources") or []),
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        late_rows=sum(int(one.get("numRowsDroppedByWatermark", 0)) for one in operators) + (before.late_rows if before else 0),
        at=str(progress.get("timestamp", "")),
    )


def lag(source: Mapping[str, Any]) -> int:
    """Offsets between where the query is and where the logs end."""
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    return sum(max(0, offset - end.get(partition, 0)) for partition, offset in latest.items())


def _offsets(found: Any) -> dict[tuple[str, str], int]:
    parsed = json.loads(found) if isinstance(found, str) else found
    if not isinstance(parsed, dict):
        return {}
    return {
        (topic, partition): int(offset)
        for topic, partitions in parsed.items()
        if not topic.startswith("@") and isinstance(partitions, dict)
        for partition, offset in partitions.items()
    }


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


class Watch(StreamingQueryListener):
    """Keeps the last figures of every query of a session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: dict[str, QueryFigures] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing to count yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = json.loads(event.progress.json)
        with self._lock:
            before = self._figures.get(str(progress["id"]))
            self._figures[str(progress["id"])] = figures(progress, before)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """The figures stay what they were."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The figures stay what they were."""

    def snapshot(self) -> list[QueryFigures]:
        with self._lock:
            return sorted(self._figures.values(), key=lambda one: one.name)


def watch(spark: SparkSession) -> Watch:
    """Listen to a session's queries from now on."""
    listener = Watch()
    spark.streams.addListener(listener)
    return listener


class Exposition:
    """Serves the figures at /metrics on the loopback address until closed."""

    def __init__(self, source: Watch, port: int) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                form = form_for(self.headers.get("Accept", ""))
                body = query_page(source.snapshot(), form)
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Type", form.value)
                self.end_headers()
                self.wfile.write(body if self.path == "/metrics" else b"")

            def log_message(self, format: str, *args: Any) -> None:
                """Scrapes are not worth a line."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="headrace-metrics", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
