"""What a metric is: its name, its kind, its labels, and what it says, in words for people.

Names and units are Prometheus' own: base units (seconds, bytes) at the end of the name, and `_total` for what only grows.
"""

from enum import StrEnum

from headrace.declaring import dataclass


class Kind(StrEnum):
    """How a metric moves."""

    COUNTER = "counter"  # it only grows, until the process ends
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


TOTAL = "_total"
UNITS = ("seconds", "bytes")


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """All samples of one name.  Two are the same only if they are one object: a name is declared once."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.name.endswith(TOTAL) is (self.kind is Kind.COUNTER), self.name
        assert self.text.endswith("."), f"{self.name}: the help is a sentence"

    @property
    def base(self) -> str:
        """The name without what says that it only grows, as OpenMetrics has it in its headings."""
        return self.name.removesuffix(TOTAL)

    @property
    def unit(self) -> str:
        """The unit that the name ends with; empty for what is counted."""
        return next((unit for unit in UNITS if self.base.endswith(f"_{unit}")), "")


def counter(name: str, text: str, *labels: str) -> Family:
    return Family(name, Kind.COUNTER, text, labels)


def gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name, Kind.GAUGE, text, labels)


def histogram(name: str, text: str, *labels: str) -> Family:
    return Family(name, Kind.HISTOGRAM, text, labels)
