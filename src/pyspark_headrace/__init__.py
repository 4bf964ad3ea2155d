"""How Spark finds `format("headrace")` without registration: it looks for `DefaultSource` in packages named `pyspark_*`."""

from headrace.spark.source.source import HeadraceSource as DefaultSource

__all__ = ["DefaultSource"]
