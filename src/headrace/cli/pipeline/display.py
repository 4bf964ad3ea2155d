"""The figures of a pipeline's queries as tables: one that redraws itself while it runs, one for `headrace pipeline status`."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.cli.output import cell_text, remark

if TYPE_CHECKING:
    from headrace.spark.pipeline.metrics import QueryFigures

COLUMNS = ("query", "batch", "rows", "rows/s", "batch ms", "lag", "watermark", "late")
TEXT_COLUMNS = ("query", "watermark")


def query_cells(pipeline: str, query: dict[str, Any]) -> tuple[object, ...]:
    """One query's row, under its name within the pipeline."""
    return (
        query["name"].removeprefix(f"{pipeline}-"),
        query["batch"],
        query["rows"],
        round(query["rows_per_second"]),
        query["batch_ms"],
        query["lag"],
        short_moment(query["watermark"]),
        query["late_rows"],
    )


def short_moment(moment: str | None, now: datetime | None = None) -> str:
    """A moment of Spark's or ours in UTC: the time alone if it is of today.  Spark's watermark before the first event is 1970."""
    if not moment or moment.startswith("1970"):
        return "-"
    today = (now or datetime.now(UTC)).date().isoformat()
    return moment[11:19] if moment.startswith(today) else moment[:19].replace("T", " ")


class Display:
    """Progress that redraws itself in a terminal, and a line per batch elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live: Any = None
        self._show: Any = None

    def __enter__(self) -> "Display":
        from headrace.spark.pipeline.batch_lines import LinePerBatch

        if not sys.stderr.isatty():
            self._show = LinePerBatch(self._name)
            return self
        from rich.console import Console
        from rich.live import Live

        self._live = Live(self._table("", []), console=Console(stderr=True), auto_refresh=False)
        self._live.start(refresh=True)
        return self

    def __exit__(self, *failure: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, doing: str, figures: "Sequence[QueryFigures]") -> None:
        if self._live is not None:
            self._live.update(self._table(doing, figures), refresh=True)
        else:
            self._show(doing, figures)

    def say(self, text: str) -> None:
        """Something for the person to keep, above what redraws itself."""
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            remark(text)

    def _table(self, doing: str, figures: "Sequence[QueryFigures]") -> Any:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=self._name,
            caption=Text(doing),
            title_justify="left",
            caption_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        for column in COLUMNS:
            table.add_column(column, justify="left" if column in TEXT_COLUMNS else "right", no_wrap=True)
        for one in figures:
            table.add_row(*(Text(cell_text(value)) for value in query_cells(self._name, asdict(one))))
        return table
