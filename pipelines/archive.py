"""Topics to Parquet, every column of every record, in folders by topic, date and hour of the record's timestamp (UTC)."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

DEFAULTS: Mapping[str, Any] = {"topics": ""}  # only these, separated by commas; empty: all that the source reads


def transform(frame: DataFrame, settings: Mapping[str, Any]) -> DataFrame:
    """The records, with the folders' columns."""
    wanted = [name.strip() for name in settings["topics"].split(",") if name.strip()]
    kept = frame.where(F.col("topic").isin(wanted)) if wanted else frame
    moment = F.col("timestamp")
    return kept.withColumns({"date": F.date_format(moment, "yyyy-MM-dd"), "hour": F.date_format(moment, "HH")})
