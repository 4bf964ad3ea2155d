"""An audit's rows as a folder for people and programs: report.md with plots, and report.json."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from headrace.model.identity import TopicPartition
from headrace.spark.audit.plots import by_partition, over_time

EMPTY = "empty"
FINDINGS = {
    EMPTY: "Nothing to audit: no records were read",
    "gap": "Offsets that are missing between two that are there",
    "duplicate": "Records with the key and id of an earlier one",
    "order": "Records of a key that are behind the one before them",
}


class Verdict(int):
    """How many findings there are, and the sentence that says so."""

    text: str

    def __new__(cls, findings: int, text: str) -> "Verdict":
        made = super().__new__(cls, findings)
        made.text = text
        return made


def verdict_text(found: int) -> str:
    """What is said of a report's number of findings, which may come from somebody's own report and be a plain number."""
    if isinstance(found, Verdict):
        return found.text
    return f"{found:,} finding{'s' if found > 1 else ''}" if found else "nothing is wrong"


@dataclass(slots=True)
class Report:
    """Everything that is shown."""

    partitions: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINDINGS, 0))
    counts_by_partition: dict[TopicPartition, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {kind: [] for kind in FINDINGS})
    minutes: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))  # records by topic and minute

    @property
    def finding_count(self) -> int:
        return sum(self.counts.values())

    @property
    def verdict(self) -> Verdict:
        """No records is a finding: whoever audits expects some, and a check of nothing proves nothing."""
        nothing = self.counts[EMPTY] > 0
        return Verdict(self.finding_count, "no records were read" if nothing else verdict_text(self.finding_count))


def write_report(rows: DataFrame, folder: Path, *, examples_max: int) -> Verdict:
    """Collect and write; the number of findings."""
    report = collect(rows, examples_max)
    folder.mkdir(parents=True, exist_ok=True)
    plots = {
        "Records over time": over_time(report.minutes, folder / "over-time.png"),
        "Records and findings by partition": by_partition(
            {TopicPartition(one["topic"], one["partition"]): one["records"] for one in report.partitions},
            report.counts_by_partition,
            folder / "by-partition.png",
        ),
    }
    (folder / "report.md").write_text(markdown(report, plots), "utf-8")
    (folder / "report.json").write_text(json.dumps(as_json(report), indent=2) + "\n", "utf-8")
    return report.verdict


def collect(rows: DataFrame, examples_max: int) -> Report:
    """Summaries and histogram whole, of the findings their number and the first ones."""
    kept = rows.persist()
    report = Report()
    try:
        for row in kept.where(F.col("kind") == "summary").orderBy("topic", "partition").collect():
            report.partitions.append({"topic": row.topic, "partition": row.partition, **json.loads(row.detail)})
        report.counts[EMPTY] = 0 if report.partitions else 1
        minutes = kept.where(F.col("kind") == "minute").groupBy("topic", F.col("detail").cast("long").alias("minute"))
        for row in minutes.agg(F.sum("number").alias("records")).collect():
            report.minutes[row.topic][row.minute] = row.records
        findings = kept.where(F.col("kind").isin(*FINDINGS))
        for row in findings.groupBy("kind", "topic", "partition").agg(F.count(F.lit(1)).alias("found")).collect():
            report.counts[row.kind] += row.found
            report.counts_by_partition[TopicPartition(row.topic, row.partition)][row.kind] = row.found
        place = F.row_number().over(Window.partitionBy("kind").orderBy("topic", "partition", "offset"))
        first = findings.withColumn("place", place).where(F.col("place") <= examples_max)
        for row in first.orderBy("topic", "partition", "offset").collect():
            report.examples[row.kind].append(_example(row))
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


def markdown(report: Report, plots: Mapping[str, str]) -> str:
    """The report as a person reads it."""
    facts = as_json(report)
    text = report.verdict.text.capitalize()
    verdict = f"**{text}.**" if report.finding_count else f"{text}."
    lines = ["# Audit", "", verdict, ""]
    lines += ["| check | findings |", "|---|---:|"]
    lines += [f"| {text} | {report.counts[kind]:,} |" for kind, text in FINDINGS.items()]
    lines += [
        "",
        f"Records: {facts['records']:,}. Checksum `{facts['checksum']}`, of the content alone `{facts['content_checksum']}`.",
    ]
    lines += ["", "| topic | partition | records | bytes | offsets | from (UTC) | to (UTC) |", "|---|---:|---:|---:|---|---|---|"]
    lines += [
        f"| {one['topic']} | {one['partition']} | {one['records']:,} | {one['bytes']:,} "
        f"| {one['first_offset']}–{one['last_offset']} | {_moment(one['first_time_ms'])} | {_moment(one['last_time_ms'])} |"
        for one in report.partitions
    ]
    for title, file in plots.items():
        lines += ["", f"![{title}]({file})"]
    for kind, text in FINDINGS.items():
        if report.examples[kind]:
            lines += ["", f"## {text}", "", "| topic | partition | offset | |", "|---|---:|---:|---|"]
            lines += [
                f"| {one['topic']} | {one['partition']} | {one['offset']} | {_cell(one['detail'])} |"
                for one in report.examples[kind]
            ]
            more = report.counts[kind] - len(report.examples[kind])
            lines += ["", f"… and {more:,} more."] if more else []
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """A key may hold anything; in a table it must not begin a column or a line."""
    return " ".join(text.replace("|", "\\|").split())


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
