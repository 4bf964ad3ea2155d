"""The console in a real browser: each page opens, shows what the wire says, acts, outlives a restart, and nothing complains.

`HEADRACE_SCREENSHOTS=1` has the pictures of the docs made anew.
"""

import os
from collections.abc import Iterator
from math import sin
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Admin, Producer
from headrace.client.deadletter.redrive import dead_letter_topics
from tests.support.console import AXE, CHROMIUM, USERS, ConsoleThread, Eyes, World, browser
from tests.support.waiting import until

pytest.importorskip("playwright")
if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here (Debian: apt install chromium)"),
    pytest.mark.xdist_group("console"),
]

DOCS = Path(__file__).parents[2] / "docs" / "console"
LOAD_MS_MAX = 300
WIRE_BYTES_MAX = 150_000
PLACES = {
    "overview": ("/", "All is well"),
    "topics": ("/topics", "payments"),
    "topic": ("/topics/orders", "A-89"),
    "partitions": ("/topics/orders/partitions", "Copies by broker"),
    "readers": ("/topics/orders/groups", "billing"),
    "settings": ("/topics/orders/settings", "retention.ms"),
    "groups": ("/groups", "workers"),
    "group": ("/groups/billing", "Lag over time"),
    "share-group": ("/groups/workers", "share"),
    "brokers": ("/brokers", "controller"),
    "transactions": ("/transactions", "transfer-7"),
    "schedules": ("/schedules", "nightly"),
    "dead-letters": ("/dead-letters", "orders.dead-letter"),
    "dead-letter": ("/dead-letters/orders.dead-letter", "the card is expired"),
    "rules": ("/security", "User:ann"),
    "why": ("/security?section=why&who=ann&kind=topic&name=orders", "by rule"),
    "users": ("/security?section=users", "SCRAM-SHA-512"),
    "audit": ("/security?section=audit", "CreateAcls"),
    "pipelines": ("/pipelines", "No pipeline has run"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("console-pages")) as running:
        yield running


@pytest.fixture(scope="module")
def console(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleThread]:
    os.environ["HEADRACE_STATE"] = str(tmp_path_factory.mktemp("console-state"))
    with ConsoleThread(world.open) as running:
        world.fill(running.url)
        rule = {
            "permission": "allow",
            "principal": "User:ann",
            "operation": "read",
            "resource_type": "topic",
            "resource_name": "orders",
        }
        assert running.client.post("/acls", json={"acls": [rule]}).status_code == 201
        until(lambda: "workers" in str(running.client.get("/console/api/groups").json()), "the console has seen all groups")
        yield running
    del os.environ["HEADRACE_STATE"]


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    with browser() as running:
        yield running


@pytest.fixture
def eyes(chromium: "Browser", console: ConsoleThread) -> Iterator[Eyes]:
    looking = Eyes(chromium, console.url)
    yield looking
    looking.close()


def serious(page: "Page") -> list[str]:
    """What axe finds that keeps people out."""
    page.evaluate(AXE.read_text())
    found: list[Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations)")
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found if each["impact"] in ("serious", "critical")]


def test_every_page_opens_for_everybody_and_nothing_complains(eyes: Eyes) -> None:
    inaccessible: dict[str, list[str]] = {}
    for name, (path, shown) in PLACES.items():
        page = eyes.go(path)
        page.get_by_text(shown).first.wait_for()
        if AXE.exists() and (found := serious(page)):
            inaccessible[name] = found

    assert eyes.complaints == []
    assert inaccessible == {}


def test_pages_are_small_and_quick(eyes: Eyes) -> None:
    eyes.go("/").get_by_text("All is well").first.wait_for()
    sizes, times = {}, {}
    for path, shown in (("/", "All is well"), ("/topics", "payments"), ("/topics/orders", "A-89")):
        page = eyes.go(path)
        page.get_by_text(shown).first.wait_for()
        entries: list[Any] = page.evaluate("performance.getEntries().map((each) => each.toJSON())")
        sizes[path] = sum(each.get("encodedBodySize", 0) for each in entries if each["entryType"] in ("resource", "navigation"))
        times[path] = next(each for each in entries if each["entryType"] == "navigation")["domContentLoadedEventEnd"]

    assert {path: size for path, size in sizes.items() if not 5_000 < size < WIRE_BYTES_MAX} == {}
    # Other tests run beside this one: the best of three is what the page can do.
    assert min(times.values()) < LOAD_MS_MAX


def test_ten_thousand_topics_are_one_list_that_filters_while_one_types(eyes: Eyes, console: ConsoleThread) -> None:
    """The server's answer is made larger on its way: ten thousand topics take a broker longer than this test may."""
    answer = console.client.get("/console/api/topics").json()
    row = answer["rows"][0]
    many = {**answer, "rows": [[f"topic-{number}", *row[1:3], False, *row[4:]] for number in range(10_000)]}
    eyes.page.route("**/console/api/topics", lambda route: route.fulfill(json=many))
    page = eyes.go("/topics")
    page.get_by_text("10,000 topics").wait_for()
    seconds = page.evaluate(
        """() => {
            const field = document.querySelector("main input[type=search]");
            const began = performance.now();
            for (const text of ["9", "99", "999", "9999"]) {
                field.value = text;
                field.dispatchEvent(new Event("input"));
            }
            return (performance.now() - began) / 4000;
        }"""
    )

    assert page.locator("tbody a.row").all_inner_texts() == ["topic-9999"]
    assert seconds < 0.5, "of a machine that other tests keep busy"
    page.locator("main input[type=search]").fill("")
    page.get_by_text("10,000 topics").wait_for()
    assert page.locator("tbody tr").count() < 200, "only what is in sight is on the page"
    assert eyes.complaints == []


def test_pages_tell_what_the_wire_says(eyes: Eyes, world: World, console: ConsoleThread) -> None:
    with Admin(world.open) as admin:
        ends, lag = admin.offsets("orders"), sum(admin.lag("billing").values())
    rows = eyes.go("/topics/orders/partitions").locator("tbody tr")
    rows.nth(2).wait_for()
    shown = [rows.nth(index).locator("td").all_inner_texts() for index in range(3)]
    page = eyes.go("/groups/billing")
    page.locator("dt:text-is('Lag') + dd").wait_for()
    told = page.locator("dt:text-is('Lag') + dd").inner_text()
    payment = eyes.go("/topics/payments").locator("tbody tr").filter(has_text="1250")
    payment.wait_for()
    payment.locator("button").click()
    eyes.page.get_by_text("avro").first.wait_for()
    found = eyes.go("/topics/orders?where=value.order+%3D+41")
    found.get_by_text("1 message among").wait_for()

    assert [int(cells[4]) for cells in shown] == [ends[index] for index in range(3)]
    assert int(told.replace(",", "")) == lag
    assert found.locator("tbody tr").count() == 1
    assert eyes.complaints == []


def confirm(page: "Page", title: str) -> None:
    """The second dialog of a change: it shows the command."""
    dialog = page.locator("dialog").filter(has_text="By command")
    dialog.wait_for()
    assert "headrace " in dialog.locator("code").first.inner_text()
    dialog.get_by_role("button", name=title, exact=True).click()
    dialog.wait_for(state="detached")


def test_what_is_done_there_is_done(eyes: Eyes, world: World) -> None:
    page = eyes.go("/topics")
    page.get_by_role("button", name="Create topic").click()
    page.get_by_label("Name").fill("made-by-hand")
    page.get_by_label("Partitions").fill("2")
    page.get_by_role("button", name="Show what will happen").click()
    confirm(page, "Create topic")
    page.get_by_role("heading", name="made-by-hand").wait_for()
    page.get_by_role("button", name="Produce a message").click()
    page.get_by_label("Key", exact=True).fill("k1")
    page.get_by_label("Value", exact=True).fill('{"written": "by <b>hand</b>"}')
    page.get_by_role("button", name="Show what will happen").click()
    confirm(page, "Produce a message")
    page.locator("td.value").get_by_text("by <b>hand</b>").wait_for()

    page = eyes.go("/groups/billing")
    page.get_by_role("button", name="Move the group").click()
    page.get_by_role("button", name="Show what will happen").click()
    page.get_by_text("15 records will be read again").wait_for()
    confirm(page, "Move the group")
    page = eyes.go("/transactions")
    page.get_by_role("button", name="Abort").click()
    confirm(page, "Abort transaction")
    page.get_by_role("button", name="Abort").wait_for(state="detached")
    page = eyes.go("/dead-letters/orders.dead-letter")
    page.get_by_role("button", name="Choose all shown").click()
    page.get_by_role("button", name="Send 1 letter back").click()
    confirm(page, "Send back")
    page.get_by_text("None waits here").first.wait_for()

    with Admin(world.open) as admin:
        assert len(admin.topic("made-by-hand").partitions) == 2
        assert sum(admin.offsets("made-by-hand").values()) == 1
        assert set(admin.committed("billing").values()) == {0}
    assert dead_letter_topics(world.open) == {"orders.dead-letter": 0}
    assert eyes.complaints == []


def test_live_messages_come_and_a_restart_of_the_broker_is_outlived(eyes: Eyes, world: World) -> None:
    page = eyes.go("/topics/orders?from=live")
    page.get_by_text("Live.").wait_for()
    with Producer(world.open) as producer:
        producer.send("orders", '{"live": "before"}').result()
    page.locator("td.value").get_by_text("before").wait_for()
    world.broker.restart()
    with Producer(world.open) as producer:
        producer.send("orders", '{"live": "after"}').result()
    page.locator("td.value").get_by_text("after").wait_for()
    page = eyes.go("/topics")
    page.get_by_text("payments").wait_for()

    assert eyes.complaints == []


def test_who_signs_in_is_offered_what_they_may_do(chromium: "Browser", world: World) -> None:
    config = {key: value for key, value in world.broker.client_config("root").items() if key != "bootstrap.servers"}
    with ConsoleThread(world.closed, config) as running:
        eyes = Eyes(chromium, running.url)
        page = eyes.go("/topics/orders")
        page.get_by_label("Name").fill("ann")
        page.get_by_label("Password").fill(USERS["ann"])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="orders").wait_for()
        offered = page.get_by_role("button").all_inner_texts()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="Sign in").wait_for()
        eyes.close()

    assert not {"Delete topic", "Produce a message"} & set(offered), "ann may only read it"
    assert eyes.complaints == []


def test_keys_lead_to_every_page_and_a_phone_shows_it_whole(chromium: "Browser", console: ConsoleThread) -> None:
    eyes = Eyes(chromium, console.url, viewport={"width": 390, "height": 844})
    page = eyes.go("/")
    page.get_by_text("All is well").first.wait_for()
    for keys, heading in (("gt", "Topics"), ("gg", "Groups"), ("gb", "Brokers")):
        page.keyboard.type(keys)
        page.get_by_role("heading", name=heading, exact=True).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, f"{heading} is wider than the phone"
    page.keyboard.type("gt")
    page.get_by_role("heading", name="Topics", exact=True).wait_for()
    page.keyboard.type("/payments")
    page.locator("tbody a.row").get_by_text("payments").wait_for()

    assert page.url.endswith("/topics?filter=payments"), "a link to what is seen"
    eyes.close()


@pytest.mark.skipif(not os.environ.get("HEADRACE_SCREENSHOTS"), reason="only on request")
@pytest.mark.timeout(600)
def test_pictures_for_the_docs_are_made(chromium: "Browser", console: ConsoleThread, world: World) -> None:
    DOCS.mkdir(exist_ok=True)
    idle = Eyes(chromium, console.url)
    with Producer(world.open) as producer:
        for second in range(60):
            order = b'{"order": %d, "customer": "eve", "total": %d.5, "items": [{"sku": "A-%d"}]}' % (second, second, second)
            producer.send_many("orders", [order] * int(40 + 30 * sin(second / 12)), keys=None).result()
            idle.page.wait_for_timeout(1000)
    idle.close()
    for name, kind in (("overview", "light"), ("topics", "dark"), ("topic", "light"), ("group", "light"), ("brokers", "dark")):
        eyes = Eyes(chromium, console.url, color_scheme=kind, viewport={"width": 1180, "height": 760})
        page = eyes.go(PLACES[name][0])
        page.locator("main .page").first.wait_for()
        page.wait_for_timeout(1500)
        if name == "topic":
            page.locator("button.open").nth(2).click()
        page.screenshot(path=DOCS / f"{name}.png")
        eyes.close()

    assert len(list(DOCS.glob("*.png"))) >= 5
