"""What the console's server holds to, whatever a page asks: sessions, proofs, read-only mode, hiding, rights, headers."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import httpx
import pytest

from headrace import Admin, Producer
from headrace.console.nouns import pipelines
from headrace.console.serving.oidc import OidcSettings
from headrace.model.identity import TopicPartition
from tests.support.console import USERS, ConsoleThread, OpenIdProvider, World
from tests.support.waiting import until

PAGE = {"X-Headrace-Console": "page"}
SESSION = "/console/api/session"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("console-server")) as running:
        with Admin(running.open) as admin, Producer(running.open) as producer:
            for name in ("orders", "customers"):
                admin.create_topic(name, partitions=2)
            for number in range(100):
                order = {"order": number, "card": {"number": "4111", "kind": "visa"}}
                producer.send(
                    "orders", json.dumps(order), key=f"k{number % 10}", headers={"n": str(number)}, partition=number % 2
                )
            producer.send("customers", "ann@example.org", key="ann")
            producer.flush()
            admin.set_offsets("billing", {TopicPartition("orders", 0): 10, TopicPartition("orders", 1): 50})
        yield running


@pytest.fixture(scope="module")
def console(world: World) -> Iterator[httpx.Client]:
    with ConsoleThread(world.open) as running:
        yield running.client


@pytest.fixture(scope="module")
def closed(world: World) -> Iterator[ConsoleThread]:
    config = {key: value for key, value in world.broker.client_config("root").items() if key != "bootstrap.servers"}
    with ConsoleThread(world.closed, config) as running:
        yield running


@pytest.fixture
def somebody(closed: ConsoleThread) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=closed.url, timeout=60) as client:
        yield client


def sign_in(client: httpx.Client, name: str) -> dict[str, str]:
    answer = client.post(SESSION, json={"username": name, "password": USERS[name]}, headers=PAGE)
    assert answer.status_code == 200, answer.text
    return {"X-Headrace-Console": answer.json()["proof"]}


def test_signing_in_gives_a_cookie_that_scripts_and_other_sites_cannot_use(somebody: httpx.Client) -> None:
    assert somebody.get("/console/api/topics").status_code == 401
    refused = somebody.post(SESSION, json={"username": "ann", "password": "wrong"}, headers=PAGE)
    answer = somebody.post(SESSION, json={"username": "ann", "password": USERS["ann"]}, headers=PAGE)

    assert (refused.status_code, refused.json()["detail"]) == (401, "The brokers do not accept these credentials.")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("headrace_console=")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert somebody.get(SESSION).json()["name"] == "ann"
    assert somebody.get("/console/api/topics").status_code == 200


def test_a_session_ends_with_signing_out(somebody: httpx.Client) -> None:
    proof = sign_in(somebody, "ann")
    token = somebody.cookies["headrace_console"]
    somebody.delete(SESSION, headers=proof)

    again = somebody.get("/console/api/topics", headers={"Cookie": f"headrace_console={token}"})

    assert again.status_code == 401


def test_what_somebody_watches_ends_with_the_session(somebody: httpx.Client, world: World) -> None:
    sign_in(somebody, "root")
    with somebody.stream("GET", "/console/api/topics/orders/live?heartbeat_ms=100", timeout=10) as watched:
        lines = watched.iter_lines()
        first = next(lines)
        somebody.delete(SESSION, headers=PAGE)
        with pytest.raises(httpx.RemoteProtocolError):
            list(islice(lines, 40))

    assert first.startswith("retry")


def test_a_cookie_alone_changes_nothing(somebody: httpx.Client) -> None:
    proof = sign_in(somebody, "root")
    without = somebody.post("/topics", json={"name": "forged"})
    wrong = somebody.post("/topics", json={"name": "forged"}, headers={"X-Headrace-Console": "guessed"})
    elsewhere = somebody.post("/topics", json={"name": "forged"}, headers={**proof, "Origin": "https://evil.example"})
    rightly = somebody.post("/topics", json={"name": "rightly-made"}, headers=proof)
    bare = httpx.post(f"{str(somebody.base_url).rstrip(chr(47))}{SESSION}", json={"username": "ann", "password": USERS["ann"]})

    assert [without.status_code, wrong.status_code, elsewhere.status_code, bare.status_code] == [403] * 4
    assert without.json()["code"] == "not_from_the_console"
    assert rightly.status_code == 201


def test_each_sees_and_does_what_the_brokers_allow(somebody: httpx.Client) -> None:
    sign_in(somebody, "root")
    all_rows = somebody.get("/console/api/topics").json()["rows"]
    rights = somebody.get(SESSION).json()["rights"]
    proof = sign_in(somebody, "ann")

    assert {"orders", "customers"} <= {row[0] for row in all_rows}
    assert "alter" in rights
    assert somebody.get("/console/api/topics").json()["rows"] == []
    assert somebody.get(SESSION).json()["rights"] == []
    assert somebody.get("/console/api/topics/orders/messages").status_code in (403, 404)
    assert somebody.get("/console/api/history?series=topic/orders/records_in").json()["points"] == []
    assert somebody.delete("/topics/orders", headers=proof).status_code in (403, 404)


def test_pipelines_are_shown_to_those_who_may_see_the_cluster(somebody: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "_shown", lambda: [{"name": "daily", "file": "/home/bob/daily.toml"}])
    seen = {}
    for name in ("root", "ann"):
        sign_in(somebody, name)
        seen[name] = [each["name"] for each in somebody.get("/console/api/pipelines").json()["pipelines"]]

    assert seen == {"root": ["daily"], "ann": []}


def test_who_signs_in_at_a_provider_is_who_its_token_says(world: World) -> None:
    config = {key: value for key, value in world.broker.client_config("root").items() if key != "bootstrap.servers"}
    with OpenIdProvider(world.issuer) as provider:
        oidc = OidcSettings(issuer=provider.url, client_id="console")
        with ConsoleThread(world.closed, config, oidc=oidc) as running:
            client = running.client
            back = client.get(f"{SESSION}/provider?to=/topics")
            returned = httpx.get(back.headers["Location"])
            stolen = httpx.get(returned.headers["Location"])
            again = client.get(httpx.get(client.get(f"{SESSION}/provider?to=/topics").headers["Location"]).headers["Location"])
            who = client.get(SESSION).json()

    assert provider.asked["code_challenge_method"] == "S256"
    assert stolen.status_code == 401, "another browser did not begin it"
    assert "SameSite=Strict" in again.headers["Set-Cookie"]
    assert "url=/console/topics" in again.text
    assert (who["how"], who["name"]) == ("provider", "ann")


def test_read_only_refuses_every_change_and_every_way_to_one(world: World) -> None:
    with ConsoleThread(world.open, read_only=True) as running:
        client = running.client
        refused = [
            client.post("/topics", json={"name": "new"}),
            client.delete("/topics/orders"),
            client.patch("/groups/billing/offsets", json={"topic": "orders", "to": "latest"}),
            client.post("/topics/orders/records", json={"value": 1}),
            client.get("/ws"),
            client.post("/console/api/elections"),
        ]
        shown = client.get("/console/api/topics/orders/messages?limit=1")
        said = client.get(SESSION).json()["read_only"]

    assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [(403, "read_only")] * 6
    assert shown.json()["records"]
    assert said is True


def test_what_a_rule_hides_is_shown_on_no_path(world: World) -> None:
    with ConsoleThread(world.open, hide=("customers", "orders:/card/number")) as running:
        client = running.client
        whole = client.get("/console/api/topics/customers/messages").json()["records"][0]
        part = client.get("/console/api/topics/orders/messages?limit=1&raw=true").json()["records"][0]
        found = client.get("/console/api/topics/orders/messages?text=4111").json()["records"]
        refused = [
            client.get(path).status_code
            for path in (
                "/topics/customers/records",
                "/topics/orders/records",
                "/topics/orders/events",
                "/ws",
                "/dead-letters/x",
                "/schedules",
            )
        ]

    assert (whole["key"], whole["value"], whole["headers"], whole["hidden"]) == ("•••", "•••", [], True)
    assert part["value"]["card"] == {"number": "•••", "kind": "visa"}
    assert "value_raw" not in part
    assert found == []
    assert refused == [403] * 6


def test_messages_are_found_forwards_backwards_and_by_conditions_with_nothing_twice(console: httpx.Client) -> None:
    path, seen, cursor = "/console/api/topics/orders/messages", [], None
    while True:
        found = console.get(path, params={"limit": 30, **({"cursor": cursor} if cursor else {})}).json()
        seen += [record["value"]["order"] for record in found["records"]]
        if (cursor := found["next"]) is None:
            break
    forwards = console.get(path, params={"from": "earliest", "limit": 500}).json()
    one = console.get(path, params={"partition": 1, "from": "7", "limit": 1}).json()["records"][0]
    chosen = console.get(path, params={"where": "value.order >= 20 and header.n = 24 and key = k4"}).json()
    wrong = console.get(path, params={"where": "order > 3"})

    assert sorted(seen) == list(range(100))
    assert sorted(record["value"]["order"] for record in forwards["records"]) == list(range(100))
    assert (one["offset"], one["value"]["order"]) == (7, 15)
    assert [record["value"]["order"] for record in chosen["records"]] == [24]
    assert chosen["looked_at"] == 100
    assert (wrong.status_code, "no field" in wrong.json()["detail"]) == (400, True)


def test_a_reset_is_planned_before_it_is_done(console: httpx.Client, world: World) -> None:
    plan = console.post("/console/api/groups/billing/plans", json={"topics": [], "to": "earliest"}).json()
    shifted = console.post("/console/api/groups/billing/plans", json={"topics": ["orders"], "by": 100}).json()
    both = console.post("/console/api/groups/billing/plans", json={"topics": [], "to": "latest", "by": 1})

    assert [(row["partition"], row["from"], row["to"]) for row in plan["partitions"]] == [(0, 10, 0), (1, 50, 0)]
    assert [row["to"] for row in shifted["partitions"]] == [50, 50], "never beyond what is there"
    assert both.status_code == 400
    with Admin(world.open) as admin:
        assert admin.committed("billing")[TopicPartition("orders", 0)] == 10, "a plan changes nothing"


def test_the_history_grows_and_is_there_after_the_console_began_anew(world: World, tmp_path: Path) -> None:
    path = "/console/api/history?series=group/billing/lag&seconds=60"

    def told(client: httpx.Client) -> list[float]:
        return [value for _, value in client.get(path).json()["points"] if value is not None]

    with ConsoleThread(world.open, history=tmp_path) as running:
        until(lambda: told(running.client), "the lag is in the history")
    with ConsoleThread(world.open, history=tmp_path, sample_seconds=3600) as running:
        assert told(running.client) == [40.0]


def test_figures_come_from_the_brokers_own_metrics_where_these_can_be_reached(console: httpx.Client, world: World) -> None:
    def figures() -> dict[str, float]:
        with Producer(world.open) as producer:
            producer.send("orders", b"x" * 10_000).result()
        found: dict[str, float] = console.get("/console/api/overview").json()["figures"]
        return found if found.get("bytes_in", 0) > 0 and "produce_p99" in found else {}

    told = until(figures, "the console has read the metrics", every_s=0.2)

    assert 0 < told["produce_p99"] < 60
    assert 0 < told["disk_used"] <= 1


def test_pages_may_load_nothing_from_elsewhere_and_are_kept_for_good(console: httpx.Client) -> None:
    page = console.get("/console/topics/orders")
    script = page.text.split('type="module" src="')[1].split('"')[0]
    part = console.get(script)

    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Server"] == "headrace", "and nobody's version"
    assert page.headers["Cache-Control"] == "no-cache"
    assert "//" not in page.text, "no address of anybody else"
    assert "immutable" in part.headers["Cache-Control"]
    assert part.headers["Content-Encoding"] == "gzip"
    assert console.get("/console/static/x/settings.py").status_code == 404
    assert console.get("/console/api/nothing").status_code == 404
