"""Prometheus' text format and OpenMetrics: what a scrape found, as bytes.  Meant for a thread: it works on values alone.

Text goes out in pieces of a few thousand samples.  Joining or encoding all of it at once would hold the interpreter, and with it
the event loop, for as long as that takes.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import islice

from headrace.metrics.families import Family, Kind
from headrace.metrics.histogram import Distribution
from headrace.metrics.scrape import Row, Scrape

LINES_PER_PIECE = 2000


class Form(Enum):
    """The two formats, each with what it is called in a content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def form_for(accept: str) -> Form:
    """What to answer to whom: OpenMetrics to who asks for it by name at least as gladly as for text."""
    weights = {"application/openmetrics-text": -1.0, "text/plain": -1.0, "*/*": -1.0}
    for part in accept.split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        if kind in weights and _version_suits(kind, parameters):
            weights[kind] = max(weights[kind], _weight(parameters))
    wanted = weights["application/openmetrics-text"]
    return Form.OPEN_METRICS if wanted > 0 and wanted >= weights["text/plain"] else Form.TEXT


def _version_suits(kind: str, parameters: Sequence[str]) -> bool:
    versions = [text.removeprefix("version=") for text in parameters if text.startswith("version=")]
    return kind != "application/openmetrics-text" or not versions or versions[0] in ("0.0.1", "1.0.0")


def _weight(parameters: Sequence[str]) -> float:
    for text in parameters:
        if text.startswith("q="):
            try:
                return float(text[2:])
            except ValueError:
                return 0.0
    return 1.0


def rendered(scrape: Scrape, form: Form) -> list[bytes]:
    """The whole answer, in pieces."""
    lines = _lines(scrape, form)
    pieces = []
    while some := list(islice(lines, LINES_PER_PIECE)):
        pieces.append("".join(some).encode())
    return pieces


def _lines(scrape: Scrape, form: Form) -> Iterator[str]:
    for families, rows in scrape.tables.items():
        labels = [_labels(families[0].labels, values) for values, _ in rows]
        for column, family in enumerate(families):
            yield _heading(family, form)
            if family.kind is Kind.HISTOGRAM:
                yield from _histograms(family, labels, rows, column)
            else:
                yield from _samples(family.name, labels, rows, column)
    if form is Form.OPEN_METRICS:
        yield "# EOF\n"


def _heading(family: Family, form: Form) -> str:
    if form is Form.TEXT:
        return f"# HELP {family.name} {family.text}\n# TYPE {family.name} {family.kind}\n"
    unit = f"# UNIT {family.base} {family.unit}\n" if family.unit else ""
    return f"# TYPE {family.base} {family.kind}\n{unit}# HELP {family.base} {family.text}\n"


def _samples(name: str, labels: Sequence[str], rows: Sequence[Row], column: int) -> Iterator[str]:
    for text, (_, values) in zip(labels, rows, strict=True):
        value = values[column]
        if value is not None:
            yield f"{name}{{{text}}} {value}\n" if text else f"{name} {value}\n"


def _histograms(family: Family, labels: Sequence[str], rows: Sequence[Row], column: int) -> Iterator[str]:
    name = family.name
    for text, (_, values) in zip(labels, rows, strict=True):
        found = values[column]
        if not isinstance(found, Distribution):
            continue
        before = f"{text}," if text else ""
        for bound, count in found.cumulative():
            yield f'{name}_bucket{{{before}le="{bound!r}"}} {count}\n'
        alone = f"{{{text}}}" if text else ""
        yield f'{name}_bucket{{{before}le="+Inf"}} {found.number}\n'
        yield f"{name}_sum{alone} {found.sum}\n{name}_count{alone} {found.number}\n"


def _labels(names: Sequence[str], values: Sequence[str | int]) -> str:
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)])


def _escaped(value: str | int) -> str | int:
    if isinstance(value, str) and ("\\" in value or '"' in value or "\n" in value):
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value
