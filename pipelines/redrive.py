"""Dead letters back to where they came from, with a count of how often, and aside when it was often enough.

The count is the header `headrace-redriven`, the same that `headrace dead-letter redrive` keeps; it stays on the record when it
fails again.  A record that has reached the limit goes to the parking topic.  One that cannot go back, since it does not say where
it came from or that topic does not exist, stays where it is and is named.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.client.deadletter.deadletter import PREFIX
from headrace.client.deadletter.redrive import REDRIVEN_HEADER
from headrace.spark.pipeline.redriving import ORIGIN, ORIGIN_PARTITION, PARKED, send_back

DEFAULTS: Mapping[str, Any] = {
    "limit": 3,  # send a record back at most so often
    "parked_topic": "{topic}.parked",  # {topic} is the dead-letter topic
}
HEADERS = "array<struct<key:string,value:binary>>"
DIGITS = "^[0-9]{1,9}$"


def transform(frame: DataFrame, settings: Mapping[str, Any]) -> DataFrame:
    """The letters, each with its origin, and with the headers that it goes on with."""
    headers = F.coalesce("headers", F.array().cast(HEADERS))
    before = F.coalesce(_number(headers, REDRIVEN_HEADER), F.lit(0))
    often = before >= F.lit(int(settings["limit"]))
    own = F.filter(headers, lambda one: ~one["key"].startswith(PREFIX) & (one["key"] != REDRIVEN_HEADER))
    count = F.struct(F.lit(REDRIVEN_HEADER).alias("key"), F.encode((before + 1).cast("string"), "UTF-8").alias("value"))
    parked = F.replace(F.lit(settings["parked_topic"]), F.lit("{topic}"), F.col("topic"))
    return frame.select(
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        _last(headers, f"{PREFIX}topic").alias(ORIGIN),
        _number(headers, f"{PREFIX}partition").alias(ORIGIN_PARTITION),
        F.when(often, parked).alias(PARKED),
        F.when(often, headers).otherwise(F.concat(own, F.array(count)).cast(HEADERS)).alias("headers"),
    )


def prepare(
    rows: DataFrame, settings: Mapping[str, Any], options: Mapping[str, str], say: Callable[[str], None]
) -> DataFrame | None:
    """Rows for the sink, each with its topic."""
    return send_back(rows, options, say)


def _last(headers: Column, name: str) -> Column:
    """The text of the last header of that name, null without one."""
    found = F.filter(headers, lambda one: one["key"] == name)
    return F.try_element_at(found, F.lit(-1))["value"].cast("string")


def _number(headers: Column, name: str) -> Column:
    """A header that is a plain number; null for anything else, as somebody else's headers may hold anything."""
    text = _last(headers, name)
    return F.when(text.rlike(DIGITS), text.cast("int"))
