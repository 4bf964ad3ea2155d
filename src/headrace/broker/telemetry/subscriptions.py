"""Subscriptions to clients' own metrics (KIP-714): which metrics, how often, of which clients.  Names are Kafka's."""

import re
from collections.abc import Iterator, Mapping

from headrace.declaring import dataclass
from headrace.model.settings import Kind, Setting, SettingError, SettingTable

METRICS, INTERVAL_MS, MATCH = "metrics", "interval.ms", "match"
ALL = "*"
INTERVAL_MS_DEFAULT = 300_000
MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

CLIENT_METRICS_SETTINGS = SettingTable(
    (
        Setting(
            name=METRICS,
            kind=Kind.LIST,
            default=(),
            doc="Prefixes of the metrics that clients are asked for; * means all of them.",
            dynamic=True,
        ),
        Setting(
            name=INTERVAL_MS,
            kind=Kind.INT,
            default=INTERVAL_MS_DEFAULT,
            doc="How often clients tell them.",
            minimum=100,
            maximum=3_600_000,
            dynamic=True,
        ),
        Setting(
            name=MATCH,
            kind=Kind.LIST,
            default=(),
            doc=f"Which clients are asked: NAME=PATTERN for each of {', '.join(MATCHED)} that matters; all clients without any.",
            dynamic=True,
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What is wanted of whom."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    @staticmethod
    def of(texts: Mapping[str, str]) -> "Subscription":
        """Raises SettingError where a setting is unknown or wrong."""
        values = CLIENT_METRICS_SETTINGS.parse(texts)
        metrics, interval_ms, match = (
            values.get(name, CLIENT_METRICS_SETTINGS[name].default) for name in (METRICS, INTERVAL_MS, MATCH)
        )
        assert isinstance(metrics, tuple)
        assert isinstance(interval_ms, int)
        assert isinstance(match, tuple)
        return Subscription(metrics, interval_ms, tuple(_patterns(match)))

    def concerns(self, client: Mapping[str, str]) -> bool:
        """Whether a client is asked; it is told by the names of `MATCHED`."""
        return all(pattern.fullmatch(client.get(name, "")) for name, pattern in self.patterns)


def _patterns(match: tuple[str, ...]) -> Iterator[tuple[str, re.Pattern[str]]]:
    for text in match:
        name, equals, pattern = (part.strip() for part in text.partition("="))
        if name not in MATCHED or not equals or "=" in pattern:
            raise SettingError(f"{MATCH} wants NAME=PATTERN with one of: {', '.join(MATCHED)}; not {text!r}")
        try:
            yield name, re.compile(pattern)
        except re.error as error:
            raise SettingError(f"{MATCH}={text!r} is no regular expression: {error}") from None
