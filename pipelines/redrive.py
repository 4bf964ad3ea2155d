"""Dead letters back to where they came from, with a count of how often, and aside when it was often enough.

The count is the header `headrace-redriven`, the same that `headrace dead-letter redrive` keeps; it stays on the record when it
fails again.  A record that has reached the limit, or does not say where it came from, goes to the parking topic.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.client.deadletter import PREFIX
from headrace.client.redrive import REDRIVEN_HEADER

DEFAULTS: Mapping[str, Any] = {
    "limit": 3,  # send a record back at most so often
    "parked_topic": "{topic}.parked",  # {topic} is the dead-letter topic
}
HEADERS = "array<struct<key:string,value:binary>>"


def transform(frame: DataFrame, settings: Mapping[str, Any]) -> DataFrame:
    """Rows for the sink, each with its topic."""
    headers = F.coalesce("headers", F.array().cast(HEADERS))
    origin = _last(headers, f"{PREFIX}topic")
    before = F.coalesce(_last(headers, REDRIVEN_HEADER).try_cast("int"), F.lit(0))
    goes_back = origin.isNotNull() & (before < F.lit(int(settings["limit"])))
    own = F.filter(headers, lambda one: ~one["key"].startswith(PREFIX) & (one["key"] != REDRIVEN_HEADER))
    count = F.struct(F.lit(REDRIVEN_HEADER).alias("key"), F.encode((before + 1).cast("string"), "UTF-8").alias("value"))
    parked = F.replace(F.lit(settings["parked_topic"]), F.lit("{topic}"), F.col("topic"))
    return frame.select(
        F.when(goes_back, origin).otherwise(parked).alias("topic"),
        "key",
        "value",
        # Where it came from, so that it meets the records of its key again.
        F.when(goes_back, _last(headers, f"{PREFIX}partition").try_cast("int")).alias("partition"),
        F.when(goes_back, F.concat(own, F.array(count)).cast(HEADERS)).otherwise(headers).alias("headers"),
    )


def _last(headers: Column, name: str) -> Column:
    """The text of the last header of that name, null without one."""
    found = F.filter(headers, lambda one: one["key"] == name)
    return F.try_element_at(found, F.lit(-1))["value"].cast("string")
