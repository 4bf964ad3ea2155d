"""What is wrong with a range of a topic or with an archive: missing offsets, duplicates, broken order, and a checksum to compare.

`transform` gives one long frame: summaries, a histogram over time, and findings.  `report` writes them for people (Markdown with
plots) and for programs (JSON).  The checksums add up over records in any order, so a topic, its archive and its replay can be
compared: `content_checksum` covers key, value, timestamp and headers, `checksum` also topic, partition and offset.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.spark.audit.report import write_report

DEFAULTS: Mapping[str, Any] = {
    "id_header": "id",  # the header that tells records of one key apart; without it a record is no duplicate
    "sequence_header": "",  # a number that rises with each record of a key; empty: the record's timestamp is to rise
    "gap_ignored": 0,  # offsets missing in a row that are no finding; 1 for topics that are written in transactions
    "examples_max": 100,  # findings of one kind that the report lists one by one
}
COLUMNS = ("kind", "topic", "partition", "offset", "number", "detail")
MODULUS = 2**62


def transform(frame: DataFrame, settings: Mapping[str, Any]) -> DataFrame:
    """All rows of the report: kind, topic, partition, offset, number, detail."""
    records = frame.withColumn("headers", F.coalesce("headers", F.array().cast("array<struct<key:string,value:binary>>")))
    if "timestampType" not in records.columns:
        records = records.withColumn("timestampType", F.lit(0))
    checks = [summaries(records), histogram(records), gaps(records, int(settings["gap_ignored"]))]
    checks += [duplicates(records, settings["id_header"]), disorder(records, settings["sequence_header"])]
    everything = checks[0]
    for one in checks[1:]:
        everything = everything.unionByName(one)
    return everything


def report(rows: DataFrame, settings: Mapping[str, Any], path: str) -> int:
    """Write the report into a folder; the number of findings."""
    return write_report(rows, Path(path), examples_max=int(settings["examples_max"]))


def summaries(records: DataFrame) -> DataFrame:
    """Each partition's extent and checksums."""
    content = [F.col("key"), F.col("value"), F.unix_millis("timestamp"), _header_text()]
    grouped = records.groupBy("topic", "partition").agg(
        F.count(F.lit(1)).alias("records"),
        F.sum(F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))).alias("bytes"),
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
        F.unix_millis(F.min("timestamp")).alias("first_time_ms"),
        F.unix_millis(F.max("timestamp")).alias("last_time_ms"),
        _checksum([F.col("topic"), F.col("partition"), F.col("offset"), *content]).alias("checksum"),
        _checksum(content).alias("content_checksum"),
    )
    detail = F.to_json(F.struct(*[name for name in grouped.columns if name not in ("topic", "partition")]))
    return _rows(grouped, "summary", number=F.col("records"), detail=detail, offset=F.col("first_offset"))


def histogram(records: DataFrame) -> DataFrame:
    """Records per minute of their timestamps."""
    minute = (F.floor(F.unix_millis("timestamp") / 60_000) * 60_000).cast("long")
    grouped = records.groupBy("topic", "partition", minute.alias("minute")).count()
    return _rows(grouped, "minute", number=F.col("count"), detail=F.col("minute").cast("string"))


def gaps(records: DataFrame, ignored: int) -> DataFrame:
    """Offsets that are not there between two that are."""
    before = F.lag("offset").over(Window.partitionBy("topic", "partition").orderBy("offset"))
    missing = records.withColumn("missing", F.col("offset") - before - 1).where(F.col("missing") > ignored)
    text = F.concat(F.col("missing").cast("string"), F.lit(" offsets missing before this one"))
    return _rows(missing, "gap", number=F.col("missing"), detail=text, offset=F.col("offset"))


def duplicates(records: DataFrame, id_header: str) -> DataFrame:
    """Records with a key and an id that another record of the topic has, too; each after the first is one."""
    named = records.withColumn("id", _header(id_header)).where(F.col("id").isNotNull())
    alike = Window.partitionBy("topic", "key", "id").orderBy("partition", "offset")
    first = F.first(F.struct("partition", "offset")).over(alike)
    found = named.withColumns({"copy": F.row_number().over(alike), "first": first}).where(F.col("copy") > 1)
    text = F.format_string(
        "key %s and id %s as in partition %d, offset %d", _shown("key"), _shown("id"), "first.partition", "first.offset"
    )
    return _rows(found, "duplicate", number=F.col("copy").cast("long"), detail=text, offset=F.col("offset"))


def disorder(records: DataFrame, sequence_header: str) -> DataFrame:
    """Records of a key that are behind the one before them."""
    place = _header(sequence_header).cast("string").try_cast("long") if sequence_header else F.unix_millis("timestamp")
    placed = records.where(F.col("key").isNotNull()).withColumn("place", place).where(F.col("place").isNotNull())
    before = F.lag("place").over(Window.partitionBy("topic", "partition", "key").orderBy("offset"))
    found = placed.withColumn("before", before).where(F.col("place") < F.col("before"))
    if sequence_header:
        text = F.format_string("key %s: sequence %d comes after %d", _shown("key"), "place", "before")
    else:
        text = F.format_string(
            "key %s: %d ms before the record of its key that it follows", _shown("key"), F.expr("before - place")
        )
    return _rows(found, "order", number=F.col("before") - F.col("place"), detail=text, offset=F.col("offset"))


def _shown(column: str) -> Column:
    """Bytes as text for people, cut where they are long."""
    return F.substring(F.coalesce(F.col(column).cast("string"), F.lit("(none)")), 1, 60)


def _rows(frame: DataFrame, kind: str, *, number: Column, detail: Column, offset: Column | None = None) -> DataFrame:
    return frame.select(
        F.lit(kind).alias("kind"),
        "topic",
        F.col("partition").cast("int").alias("partition"),
        (F.lit(None) if offset is None else offset).cast("long").alias("offset"),
        number.cast("long").alias("number"),
        detail.alias("detail"),
    )


def _header(name: str) -> Column:
    return F.try_element_at(F.filter("headers", lambda one: one["key"] == name), F.lit(-1))["value"]


def _header_text() -> Column:
    return F.to_json("headers")


def _checksum(columns: list[Column]) -> Column:
    """The sum of the records' hashes, which does not depend on their order.  Null and empty differ."""
    total = F.sum(F.xxhash64(*columns, *[column.isNull() for column in columns]).cast("decimal(38,0)"))
    return F.pmod(total, F.lit(MODULUS).cast("decimal(38,0)")).cast("string")
