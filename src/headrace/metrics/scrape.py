"""What was found at one moment: tables of samples, gathered where the counters live and written out elsewhere.

Families that have the same labels share a table, whose rows hold the labels once: ten thousand partitions are ten thousand
tuples, not a hundred thousand.
"""

from collections.abc import Sequence

from headrace.metrics.families import Family
from headrace.metrics.histogram import Distribution

Value = int | float | Distribution | None  # None: this row says nothing of that family
Row = tuple[tuple[str | int, ...], Sequence[Value]]


class Scrape:
    """All that one answer tells."""

    def __init__(self) -> None:
        self.tables: dict[tuple[Family, ...], list[Row]] = {}

    def rows(self, *families: Family) -> list[Row]:
        """The rows of a table, to be added to."""
        return self.tables.setdefault(families, [])

    def add(self, family: Family, value: Value, *labels: str | int) -> None:
        """One sample."""
        self.rows(family).append((labels, (value,)))
