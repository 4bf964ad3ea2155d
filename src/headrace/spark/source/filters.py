"""Turns a query's filters on topic, partition, offset and timestamp into bounds that the reader can seek to.

A filter is taken over whole only when the bounds say exactly what it says; the rest stay with Spark, which checks them on
the rows that are left.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALWAYS_SET = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


@dataclass(slots=True)
class Bounds:
    """What the filters leave.  Upper bounds are exclusive; None means no bound."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offset_min: int = 0
    offset_end: int | None = None
    timestamp_min_ms: int | None = None
    timestamp_end_ms: int | None = None

    def take(self, one: Filter) -> bool:
        """Narrow the bounds by a filter.  True when the filter needs no second look."""
        match one:
            case IsNotNull(attribute=(name,)):
                return name in ALWAYS_SET
            case EqualTo(attribute=(name,), value=value) | EqualNullSafe(attribute=(name,), value=value):
                return value is not None and self._equal(name, frozenset([value]))
            case In(attribute=(name,), value=values):
                return self._equal(name, frozenset(value for value in values if value is not None))
            case GreaterThan(attribute=(name,), value=value) | GreaterThanOrEqual(attribute=(name,), value=value):
                return self._from(name, value, strict=isinstance(one, GreaterThan))
            case LessThan(attribute=(name,), value=value) | LessThanOrEqual(attribute=(name,), value=value):
                return self._below(name, value, strict=isinstance(one, LessThan))
        return False

    def _equal(self, name: str, values: frozenset[object]) -> bool:
        if name == "topic":
            named = frozenset(str(value) for value in values)
            self.topics = named if self.topics is None else self.topics & named
            return True
        if name == "partition":
            numbers = frozenset(value for value in values if isinstance(value, int))
            self.partitions = numbers if self.partitions is None else self.partitions & numbers
            return True
        if name == "offset" and values:
            offsets = [value for value in values if isinstance(value, int)]
            self._from("offset", min(offsets), strict=False)
            self._below("offset", max(offsets), strict=False)
            return len(offsets) == 1
        if name == "timestamp" and values:
            moments = [value for value in values if isinstance(value, datetime)]
            self._from("timestamp", min(moments), strict=False)
            self._below("timestamp", max(moments), strict=False)
        return False

    def _from(self, name: str, value: object, *, strict: bool) -> bool:
        if name == "offset" and isinstance(value, int):
            self.offset_min = max(self.offset_min, value + 1 if strict else value)
            return True
        if name == "timestamp" and isinstance(value, datetime):
            moment = -(-_microseconds(value) // 1000)
            self.timestamp_min_ms = moment if self.timestamp_min_ms is None else max(self.timestamp_min_ms, moment)
        return False

    def _below(self, name: str, value: object, *, strict: bool) -> bool:
        if name == "offset" and isinstance(value, int):
            end = value if strict else value + 1
            self.offset_end = end if self.offset_end is None else min(self.offset_end, end)
            return True
        if name == "timestamp" and isinstance(value, datetime):
            moment = _microseconds(value) // 1000 + 1
            self.timestamp_end_ms = moment if self.timestamp_end_ms is None else min(self.timestamp_end_ms, moment)
        return False


def bounds_of(filters: Iterable[Filter]) -> tuple[Bounds, list[Filter]]:
    """The bounds, and the filters that Spark still has to apply."""
    bounds = Bounds()
    remaining = [one for one in filters if not bounds.take(one)]
    return bounds, remaining


def _microseconds(moment: datetime) -> int:
    # Spark hands session-zone moments over as aware datetimes; a naive one is UTC by the rule of its Arrow conversion.
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)
