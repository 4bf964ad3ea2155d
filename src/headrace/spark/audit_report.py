"""An audit's rows as a folder for people and programs: report.md with plots, and report.json."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

FINDINGS = {
    "gap": "Offsets that are missing between two that are there",
    "duplicate": "Records with the key and id of an earlier one",
    "order": "Records of a key that are behind the one before them",
}


@dataclass(slots=True)
class Report:
    """Everything that is shown."""

    partitions: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    minutes: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def finding_count(self) -> int:
        return sum(self.counts.values())


def write_report(rows: DataFrame, folder: Path, *, examples_max: int) -> int:
    """Collect and write; the number of findings."""
    report = collect(rows, examples_max)
    folder.mkdir(parents=True, exist_ok=True)
    plots = _plots(report, folder)
    (folder / "report.md").write_text(markdown(report, plots), "utf-8")
    (folder / "report.json").write_text(json.dumps(as_json(report), indent=2) + "\n", "utf-8")
    return report.finding_count


def collect(rows: DataFrame, examples_max: int) -> Report:
    """Summaries and histogram whole, of the findings their number and the first ones."""
    kept = rows.persist()
    report = Report()
    try:
        for row in kept.where(F.col("kind") == "summary").orderBy("topic", "partition").collect():
            report.partitions.append({"topic": row.topic, "partition": row.partition, **json.loads(row.detail)})
        for row in kept.where(F.col("kind") == "minute").orderBy(F.col("detail").cast("long")).collect():
            report.minutes[row.topic, row.partition].append((int(row.detail), row.number))
        for kind in FINDINGS:
            found = kept.where(F.col("kind") == kind)
            report.counts[kind] = found.count()
            first = found.orderBy("topic", "partition", "offset").limit(examples_max).collect() if report.counts[kind] else []
            report.examples[kind] = [_example(row) for row in first]
    finally:
        kept.unpersist()
    return report


def _example(row: Row) -> dict[str, Any]:
    return {"topic": row.topic, "partition": row.partition, "offset": row.offset, "number": row.number, "detail": row.detail}


def as_json(report: Report) -> dict[str, Any]:
    return {
        "findings": report.finding_count,
        "counts": report.counts,
        "checksum": _total(report.partitions, "checksum"),
        "content_checksum": _total(report.partitions, "content_checksum"),
        "records": sum(one["records"] for one in report.partitions),
        "partitions": report.partitions,
        "examples": report.examples,
    }


def _total(partitions: Sequence[dict[str, Any]], name: str) -> str:
    return format(sum(int(one[name]) for one in partitions) % 2**62, "016x")


def markdown(report: Report, plots: Sequence[str]) -> str:
    """The report as a person reads it."""
    facts = as_json(report)
    verdict = "Nothing is wrong." if not report.finding_count else f"**{report.finding_count:,} findings.**"
    lines = ["# Audit", "", verdict, ""]
    lines += ["| check | findings |", "|---|---:|"]
    lines += [f"| {text} | {report.counts[kind]:,} |" for kind, text in FINDINGS.items()]
    lines += [
        "",
        f"Records: {facts['records']:,}. Checksum `{facts['checksum']}`, of the content alone `{facts['content_checksum']}`.",
    ]
    lines += ["", "| topic | partition | records | bytes | offsets | from | to |", "|---|---:|---:|---:|---|---|---|"]
    lines += [
        f"| {one['topic']} | {one['partition']} | {one['records']:,} | {one['bytes']:,} "
        f"| {one['first_offset']}–{one['last_offset']} | {_moment(one['first_time_ms'])} | {_moment(one['last_time_ms'])} |"
        for one in report.partitions
    ]
    for plot in plots:
        lines += ["", f"![{plot}]({plot})"]
    for kind, text in FINDINGS.items():
        if report.examples[kind]:
            lines += ["", f"## {text}", "", "| topic | partition | offset | |", "|---|---:|---:|---|"]
            lines += [
                f"| {one['topic']} | {one['partition']} | {one['offset']} | {one['detail']} |" for one in report.examples[kind]
            ]
    return "\n".join(lines) + "\n"


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def _plots(report: Report, folder: Path) -> list[str]:
    """Records over time, and records and findings by partition."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 3.5))
    for (topic, partition), points in sorted(report.minutes.items()):
        moments = [datetime.fromtimestamp(minute / 1000, UTC) for minute, _ in points]
        axes.plot(
            moments,  # type: ignore[arg-type]
            [count for _, count in points],
            marker="." if len(points) < 50 else None,
            label=f"{topic}-{partition}",
        )
    axes.set_ylabel("records per minute")
    if 0 < len(report.minutes) <= 12:
        axes.legend(fontsize="small")
    figure.autofmt_xdate()
    figure.savefig(folder / "over-time.png", bbox_inches="tight", dpi=120)
    pyplot.close(figure)

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5))
    names = [f"{one['topic']}-{one['partition']}" for one in report.partitions]
    left.barh(names, [one["records"] for one in report.partitions])
    left.set_xlabel("records")
    right.barh(list(report.counts), list(report.counts.values()), color="tab:red")
    right.set_xlabel("findings")
    figure.tight_layout()
    figure.savefig(folder / "by-partition.png", dpi=120)
    pyplot.close(figure)
    return ["over-time.png", "by-partition.png"]
