"""Spark looks for `DefaultSource` in packages named `pyspark_*`: this is how `format("headrace")` is found without registration."""

from headrace.spark.source import HeadraceSource as DefaultSource

__all__ = ["DefaultSource"]
