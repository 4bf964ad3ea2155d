"""What a broker tells of itself over HTTP, read by Prometheus' own parsers."""

import urllib.request
from collections.abc import Mapping
from typing import NamedTuple, Self

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as text_format

from headrace.broker.app import Broker as RealBroker
from headrace.broker.metrics.catalog import SUBJECTS, families_of
from headrace.broker.metrics.collecting import Page
from headrace.metrics.families import Family
from headrace.metrics.rendering import Form
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.raw import RawClient, produce

SUMMARY, DETAIL = "/metrics", "/metrics/detail"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
PRODUCE_VERSION = 9
AT_ANY_PORT = {"headrace.metrics.listener": "127.0.0.1:0"}


def all_families() -> list[Family]:
    """Every metric that a broker can tell."""
    return [family for module in SUBJECTS.values() for family in families_of(module)]


class Answer(NamedTuple):
    """One page."""

    body: bytes
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(port: int, page: str = SUMMARY, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{page}", headers=named)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return Answer(answer.read(), dict(answer.headers))


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples_in(text: str, *, is_open_metrics: bool = False) -> Samples:
    """Each sample by its name and labels.  The parsers refuse what their format does not allow."""
    found: Samples = {}
    for family in (open_metrics if is_open_metrics else text_format)(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, f"{key} is told twice"
            found[key] = float(sample.value)
    return found


class Watch:
    """How far metrics have moved since it began to look."""

    def __init__(self, broker: Broker) -> None:
        assert broker.broker is not None
        assert broker.broker.metrics.address is not None
        self.port = broker.broker.metrics.address.port
        self._before = self._look()

    def _look(self) -> Samples:
        return samples_in(ask(self.port).text) | samples_in(ask(self.port, DETAIL).text)

    def now(self, name: str, **labels: object) -> float:
        """The sum of all samples of a name that have these labels."""
        return _sum(self._look(), name, labels)

    def moved(self, name: str, **labels: object) -> float:
        return self.now(name, **labels) - _sum(self._before, name, labels)


class ClusterWatch:
    """The same for a broker of a cluster on the test's own loop: `await ClusterWatch.of(broker)`."""

    def __init__(self, broker: RealBroker, before: Samples) -> None:
        self._broker = broker
        self._before = before

    @classmethod
    async def of(cls, broker: RealBroker) -> Self:
        return cls(broker, await _told(broker))

    async def now(self, name: str, **labels: object) -> float:
        return _sum(await _told(self._broker), name, labels)

    async def moved(self, name: str, **labels: object) -> float:
        return await self.now(name, **labels) - _sum(self._before, name, labels)


async def _told(broker: RealBroker) -> Samples:
    pages = [await broker.collection.page(page, Form.TEXT, compressed=False) for page in Page]
    return {key: value for page in pages for key, value in samples_in(page.decode()).items()}


def _sum(samples: Samples, name: str, labels: Mapping[str, object]) -> float:
    wanted = {(label, str(value)) for label, value in labels.items()}
    return sum(value for (each, found), value in samples.items() if each == name and wanted <= set(found))


def fetch(topic: str, offset: int = 0, *, max_wait_ms: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=(FetchTopic(topic=topic, partitions=(wanted,)),))


def write(client: RawClient, topic: str, records: bytes) -> ErrorCode:
    return ErrorCode(client.call(produce(topic, records), PRODUCE_VERSION).responses[0].partition_responses[0].error_code)
