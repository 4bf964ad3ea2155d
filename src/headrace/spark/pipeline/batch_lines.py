"""How a pipeline that runs tells what it does: what the person is told, and a line per batch where there is no terminal."""

import sys
from collections.abc import Sequence
from typing import Protocol, TextIO

from headrace.spark.pipeline.metrics import QueryFigures


class Show(Protocol):
    """Takes what the pipeline is doing, in words, and the figures of its queries so far."""

    def __call__(self, doing: str, figures: Sequence[QueryFigures]) -> None: ...


class LinePerBatch:
    """For logs: one line when Spark starts, one for each batch, nothing twice."""

    def __init__(self, name: str, out: TextIO | None = None) -> None:
        self._name = name
        self._out = out or sys.stderr
        self._said_first = False
        self._seen: dict[str, int] = {}

    def __call__(self, doing: str, figures: Sequence[QueryFigures]) -> None:
        if not self._said_first:
            self._said_first = True
            self.say(f"{self._name}: {doing}")
        for one in figures:
            if self._seen.get(one.query_id) != one.batch:
                self._seen[one.query_id] = one.batch
                self.say(
                    f"{one.name}: batch {one.batch}, {one.rows:,} rows, {one.rows_per_second:,.0f} rows/s, {one.batch_ms} ms, "
                    f"lag {one.lag:,}" + (f", watermark {one.watermark}" if one.watermark else "")
                )

    def say(self, line: str) -> None:
        print(line, file=self._out, flush=True)
