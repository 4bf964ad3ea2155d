"""The pages that Prometheus scrapes: where they are, in which formats, and what a scrape costs those who are served."""

import asyncio
import gzip
import re
import time
import urllib.error
from itertools import pairwise

import pytest

from headrace.broker.app import Broker as RealBroker
from headrace.broker.metrics.catalog import page_of
from headrace.broker.metrics.collecting import Page
from headrace.metrics.families import Kind
from headrace.metrics.rendering import Form
from headrace.testing import Broker
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.metrics import AT_ANY_PORT, DETAIL, OPEN_METRICS, SUMMARY, Watch, all_families, ask, samples_in
from tests.support.process import free_port
from tests.support.raw import RawClient, ask_until_created, batch, produce

PARTITIONS = 10_000


def test_who_asks_for_health_is_told_no_names() -> None:
    """Nobody signs in there: topics, groups and users are told at the address of the metrics only."""
    port = free_port()
    with Broker(settings={"headrace.health.listener": f"127.0.0.1:{port}"}) as broker:
        with RawClient(broker.bootstrap, client_id="payroll-reader") as client:
            ask_until_created(client, "payroll")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(port, DETAIL)
        pages = [ask(port, page).text for page in (SUMMARY, "/live", "/ready")]

    assert not [page for page in pages if "payroll" in page]


@pytest.mark.parametrize(("at_own_address", "page"), [(True, SUMMARY), (True, DETAIL), (False, SUMMARY)])
def test_metrics_are_told_at_their_own_address_and_where_health_is(at_own_address: bool, page: str) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    settings = {"headrace.metrics.listener": address} if at_own_address else {"headrace.health.listener": address}
    with Broker(settings=settings) as broker:
        with RawClient(broker.bootstrap) as client:
            ask_until_created(client, "t")
            client.call(produce("t", batch(b"one")), 9)

        answer, in_other_words = ask(port, page), ask(port, page, Accept=OPEN_METRICS)

    assert answer.headers["Content-Type"] == Form.TEXT.value
    assert in_other_words.headers["Content-Type"] == Form.OPEN_METRICS.value
    told = {name for name, _ in samples_in(answer.text)}
    assert told
    assert told == {name for name, _ in samples_in(in_other_words.text, is_open_metrics=True)}


def test_who_understands_gzip_gets_it() -> None:
    with Broker(settings=AT_ANY_PORT) as broker:
        answer = ask(Watch(broker).port, Accept_Encoding="gzip")

    assert answer.headers["Content-Encoding"] == "gzip"
    assert samples_in(gzip.decompress(answer.body).decode())


def test_a_metric_that_many_things_have_is_on_the_page_of_details_and_nowhere_else() -> None:
    with Broker(settings=AT_ANY_PORT) as broker:
        with RawClient(broker.bootstrap) as client:
            ask_until_created(client, "t")
        port = Watch(broker).port
        told = {page: set(re.findall(r"^# TYPE (\S+)", ask(port, page).text, re.MULTILINE)) for page in Page}

    for page in Page:
        # Those of tiered storage are told where there is an object store.
        wanted = {family.name for family in all_families() if page_of(family) is page}
        assert told[page] == {name for name in wanted if not name.startswith("headrace_remote_")}


def test_names_follow_the_conventions() -> None:
    names = [family.name for family in all_families()]

    assert len(names) == len(set(names))
    for family in all_families():
        assert re.fullmatch(r"(headrace|process|python)_[a-z_]*[a-z]", family.name)
        assert not re.search(r"_(milliseconds|ms|us|kb|mb|kilobytes|count|sum|bucket|info_total)(_total)?$", family.name)
        assert "le" not in family.labels
        if family.kind is Kind.HISTOGRAM and family.unit == "":
            assert "seconds" not in family.name


async def scraped_among_many(broker: RealBroker, page: Page) -> tuple[float, float, int]:
    """How long a scrape takes, how long the loop computes meanwhile before it looks around, and how many bytes it is; the best of
    three.  The second by the thread's own time, as tests beside this one take the processor away."""
    await broker.collection.page(page, Form.TEXT, compressed=False)
    results = []
    for _ in range(3):
        began, moments = time.perf_counter(), [time.thread_time()]
        scraping = asyncio.ensure_future(broker.collection.page(page, Form.TEXT, compressed=False))
        while not scraping.done():
            await asyncio.sleep(0)
            moments.append(time.thread_time())
        took = time.perf_counter() - began
        results.append((took, max(later - earlier for earlier, later in pairwise(moments)), len(scraping.result())))
    return min(took for took, _, _ in results), min(silence for _, silence, _ in results), results[0][2]


def test_a_scrape_of_ten_thousand_partitions_does_not_keep_the_loop() -> None:
    with Broker(settings=AT_ANY_PORT) as broker:
        topic = CreatableTopic(name="many", num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=())
        with RawClient(broker.bootstrap, timeout=60) as client:
            assert client.call(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 5).topics[0].error_code == 0
        assert broker.broker is not None

        summary = broker.call(scraped_among_many(broker.broker, Page.SUMMARY))
        detail = broker.call(scraped_among_many(broker.broker, Page.DETAIL))

    print(f"summary: {summary}, detail: {detail}")
    # The first is wide: other tests run beside this one.  The figures proper are in `make bench`.
    for took, silence, _ in (summary, detail):
        assert took < 3.0
        assert silence < 0.02
    assert detail[2] > PARTITIONS * 100
