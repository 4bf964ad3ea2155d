"""What brokers count themselves, where their page of metrics can be reached: bytes, records read, how long requests take.

Where the page is, a broker's own settings say; who may not read them, or gets no answer, does without.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from headrace.client.brokers.cluster import Cluster
from headrace.client.errors import HeadraceError
from headrace.console.watching.snapshot import BrokerFacts
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

LISTENERS: Final = ("headrace.metrics.listener", "headrace.health.listener")
BROKER_RESOURCE: Final = 4
PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
PATIENCE_S: Final = 2.0
_SAMPLE: Final = re.compile(r"^(headrace_[a-z_]+)(?:\{([^}]*)\})? ([-+.\w]+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
COUNTERS: Final = {
    "headrace_produced_bytes_total": "bytes_in",
    "headrace_consumed_bytes_total": "bytes_out",
    "headrace_consumed_records_total": "records_out",
}
PHASES: Final = "headrace_request_phase_seconds_bucket"
APIS: Final = {"Produce": "produce", "Fetch": "fetch"}
# A fetch that waits for records does what it was asked to: that is no latency.
PHASES_OF: Final = {"produce": ("queue", "work", "wait", "send"), "fetch": ("queue", "work", "send")}


@dataclass(slots=True)
class Counted:
    """One broker's counters; buckets by API, phase and upper bound."""

    totals: dict[str, float] = field(default_factory=dict)
    buckets: dict[tuple[str, str], dict[float, float]] = field(default_factory=dict)


async def addresses(cluster: Cluster, brokers: Iterable[BrokerFacts]) -> dict[int, str]:
    """Where the pages are, as URLs."""
    found = {}
    for broker in brokers:
        resource = DescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=str(broker.id), configuration_keys=LISTENERS
        )
        try:
            reply = await cluster.call(DescribeConfigsRequest(resources=(resource,)), broker=broker.id)
        except HeadraceError:
            continue
        told = {each.name: each.value for result in reply.results for each in result.configs if each.value}
        listener = next((told[name] for name in LISTENERS if name in told), None)
        if listener is not None:
            host, _, port = listener.rpartition(":")
            reached = broker.host if host in ("", "0.0.0.0", "[::]", "*") else host
            found[broker.id] = f"http://{reached}:{port}/metrics"
    return found


async def scrape(session: aiohttp.ClientSession, urls: dict[int, str]) -> dict[int, Counted]:
    """The pages of those that answer."""
    pages = await asyncio.gather(*(_page(session, url) for url in urls.values()))
    return {broker: read_page(page) for broker, page in zip(urls, pages, strict=True) if page is not None}


async def _page(session: aiohttp.ClientSession, url: str) -> str | None:
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(PATIENCE_S), allow_redirects=False) as answer:
            if answer.status != 200:
                return None
            return (await answer.content.read(PAGE_BYTES_MAX)).decode(errors="replace")
    except (aiohttp.ClientError, TimeoutError, OSError):
        return None


def read_page(text: str) -> Counted:
    """The few numbers that are wanted, of a page in Prometheus' text format."""
    counted = Counted()
    for name, labels, value in _SAMPLE.findall(text):
        if name in COUNTERS:
            counted.totals[COUNTERS[name]] = counted.totals.get(COUNTERS[name], 0.0) + float(value)
        elif name == PHASES:
            told = dict(_LABEL.findall(labels))
            if (api := APIS.get(told.get("api", ""))) is not None:
                bounds = counted.buckets.setdefault((api, told.get("phase", "")), {})
                bounds[float(told["le"].replace("+Inf", "inf"))] = float(value)
    return counted


def rates(before: dict[int, Counted], after: dict[int, Counted], seconds: float) -> dict[str, float]:
    """What happened in between, over all brokers that told both times; a broker that began anew counts from then on."""
    found: dict[str, float] = {}
    both = [number for number in after if number in before]
    if not both or seconds <= 0:
        return found
    for name in COUNTERS.values():
        grown = sum(max(0.0, after[each].totals.get(name, 0) - before[each].totals.get(name, 0)) for each in both)
        found[name] = grown / seconds
    for api, phases in PHASES_OF.items():
        told = [p99(_grown(before, after, both, (api, phase))) for phase in phases]
        if any(each is not None for each in told):
            found[f"{api}_p99"] = sum(each or 0.0 for each in told)
    return found


def _grown(before: dict[int, Counted], after: dict[int, Counted], brokers: list[int], key: tuple[str, str]) -> dict[float, float]:
    found: dict[float, float] = {}
    for each in brokers:
        earlier = before[each].buckets.get(key, {})
        for bound, count in after[each].buckets.get(key, {}).items():
            found[bound] = found.get(bound, 0.0) + max(0.0, count - earlier.get(bound, 0.0))
    return found


def p99(cumulative: dict[float, float]) -> float | None:
    """The 99th percentile by buckets, as Prometheus reckons it; None where nothing was counted."""
    total = cumulative.get(math.inf, 0.0)
    if total <= 0:
        return None
    wanted, below, under = 0.99 * total, 0.0, 0.0
    for bound in sorted(cumulative):
        count = cumulative[bound]
        if count >= wanted:
            return below if math.isinf(bound) else below + (bound - below) * (wanted - under) / max(count - under, 1e-9)
        below, under = bound, count
    return below
