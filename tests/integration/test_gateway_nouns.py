"""Everything that the command line can do with a cluster, over HTTP: the table of it, and the nouns without a test elsewhere."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import typer
import typer.main

from headrace import Producer
from headrace.cli.main import COMMANDS, app
from headrace.gateway.gateway import all_operations
from headrace.testing import Broker
from tests.support.gateway import GatewayThread
from tests.support.raw import RawClient
from tests.support.share_member import ShareMember
from tests.support.waiting import until

# What each command is over HTTP.
PATHS = {
    "topic list": ["GET /topics"],
    "topic create": ["POST /topics"],
    "topic describe": ["GET /topics/{topic}", "GET /topics/{topic}/partitions", "GET /topics/{topic}/settings"],
    "topic alter": ["PATCH /topics/{topic}", "PATCH /topics/{topic}/settings"],
    "topic delete": ["DELETE /topics/{topic}"],
    "topic purge": ["DELETE /topics/{topic}/partitions/{partition}/records"],
    "produce": ["POST /topics/{topic}/records"],
    "consume": ["GET /topics/{topic}/records", "GET /topics/{topic}/events", "POST /groups/{group}/members"],
    "cancel": ["POST /topics/{topic}/cancellations"],
    "group list": ["GET /groups"],
    "group describe": ["GET /groups/{group}", "GET /groups/{group}/offsets"],
    "group lag": ["GET /groups/{group}/lag"],
    "group reset": ["PATCH /groups/{group}/offsets"],
    "group delete": ["DELETE /groups/{group}"],
    "transaction list": ["GET /transactions"],
    "transaction describe": ["GET /transactions/{transactional_id}"],
    "transaction abort": [
        "POST /transactions/{transactional_id}/aborts",
        "POST /topics/{topic}/partitions/{partition}/aborts",
    ],
    "producer list": ["GET /topics/{topic}/producers"],
    "dead-letter list": ["GET /dead-letters"],
    "dead-letter show": ["GET /dead-letters/{topic}"],
    "dead-letter redrive": ["POST /dead-letters/{topic}/redrives"],
    "schedule add": ["PUT /schedules/{schedule}"],
    "schedule list": ["GET /schedules"],
    "schedule show": ["GET /schedules/{schedule}"],
    "schedule pause": ["PATCH /schedules/{schedule}"],
    "schedule resume": ["PATCH /schedules/{schedule}"],
    "schedule remove": ["DELETE /schedules/{schedule}"],
    "schedule run": ["POST /schedules/{schedule}/runs"],
    "cluster status": ["GET /brokers", "GET /brokers/{broker}", "GET /moves"],
    "cluster drain": ["POST /moves", "DELETE /moves/{topic}/{partition}"],
    "cluster rebalance": ["POST /moves"],
    "cluster replace": ["POST /moves"],
    "cluster forget": ["DELETE /brokers/{broker}"],
    "quota list": ["GET /quotas"],
    "quota set": ["PATCH /quotas"],
    "user add": ["PUT /users/{user}"],
    "user list": ["GET /users"],
    "user password": ["PUT /users/{user}"],
    "user remove": ["DELETE /users/{user}"],
    "acl allow": ["POST /acls"],
    "acl deny": ["POST /acls"],
    "acl list": ["GET /acls"],
    "acl remove": ["DELETE /acls"],
    "audit search": ["GET /topics/{topic}/records"],
    "audit tail": ["GET /topics/{topic}/events"],
    "client-metrics list": ["GET /client-metrics"],
    "client-metrics set": ["PUT /client-metrics/{name}"],
    "client-metrics delete": ["DELETE /client-metrics/{name}"],
    "logs level": ["GET /brokers/{broker}/loggers", "PUT /brokers/{broker}/loggers/{logger}"],
}
# Whatever they are called.
OF_GROUPS_OF_COMMANDS = {"queue": ["GET /queues", "GET /queues/{queue}", "PATCH /queues/{queue}", "DELETE /queues/{queue}"]}
# What is no question to a cluster: processes and files of this machine, and what is reckoned from rules that GET /acls shows.
LOCAL = (
    "serve",
    "console",
    "gateway",
    "pipeline",
    "cluster up",
    "cluster add",
    "profile",
    "cert",
    "monitoring",
    "log ",
    "demo",
    "doctor",
    "recover",
    "acl check",
    "acl template",
)


def commands() -> Iterator[str]:
    root: Any = typer.main.get_command(app)
    context = typer.Context(root, info_name="headrace")
    for name in COMMANDS:
        inner = getattr(root.get_command(context, name), "commands", None)
        yield from [name] if inner is None else (f"{name} {each}" for each in inner)


def test_whatever_a_command_does_with_a_cluster_is_done_over_http() -> None:
    served = {f"{each.method} {each.path}" for room in all_operations() for each in room.each}

    left = [name for name in commands() if name not in PATHS and name.split()[0] not in OF_GROUPS_OF_COMMANDS]
    assert [name for name in left if not name.startswith(LOCAL)] == []
    assert [path for paths in (PATHS | OF_GROUPS_OF_COMMANDS).values() for path in paths if path not in served] == []


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def http(broker: Broker) -> Iterator[httpx.Client]:
    with GatewayThread(broker.bootstrap) as gateway:
        yield gateway.client


def test_a_schedule_is_made_paused_run_and_removed(http: httpx.Client) -> None:
    http.post("/topics", json={"name": "jobs"})
    wanted = {"cron": "0 3 * * *", "topic": "jobs", "value": "report", "timezone": "Europe/Vienna"}
    made = http.put("/schedules/nightly", json=wanted)
    listed = http.get("/schedules").json()
    tag = http.get("/schedules/nightly").headers["ETag"]
    paused = http.patch("/schedules/nightly", json={"paused": True}, headers={"If-Match": tag})
    late = http.delete("/schedules/nightly", headers={"If-Match": tag})
    run = http.post("/schedules/nightly/runs")
    until(lambda: http.get("/topics/jobs/records", params={"from": "earliest"}).json()["records"], "the record has come", 60)
    refused = http.put("/schedules/odd", json={**wanted, "missed": "never"})
    gone = http.delete("/schedules/nightly")

    assert (made.status_code, made.json()["timezone"], paused.json()["paused"]) == (200, "Europe/Vienna", True), made.text
    assert [each["name"] for each in listed["schedules"]] == ["nightly"]
    assert (late.status_code, run.status_code, refused.status_code, gone.status_code) == (412, 202, 400, 204)
    assert http.get("/schedules/nightly").json()["code"] == "schedule_not_found"


def test_a_record_is_kept_back_and_taken_back_by_its_key(http: httpx.Client) -> None:
    http.post("/topics", json={"name": "later", "settings": {"headrace.delay.enable": True}})
    http.post("/topics", json={"name": "at-once"})
    at = int(time.time() * 1000) + 5000
    records = [{"key": "ann", "value": 1, "deliver_at": at}, {"key": "bob", "value": 2, "deliver_at": at}]
    sent = http.post("/topics/later/records", json={"records": records})
    cancelled = http.post("/topics/later/cancellations", json={"keys": ["ann"]})
    refused = http.post("/topics/at-once/cancellations", json={"keys": ["ann"]})

    def there() -> list[Any]:
        return [each["value"] for each in http.get("/topics/later/records", params={"from": "earliest"}).json()["records"]]

    until(there, "what was not taken back is delivered", 60)

    assert (sent.status_code, cancelled.status_code, refused.json()["code"]) == (200, 204, "no_delays"), cancelled.text
    assert there() == [2]


def test_a_transaction_is_shown_and_aborted(http: httpx.Client, broker: Broker) -> None:
    http.post("/topics", json={"name": "bills"})
    with Producer(broker.bootstrap, transactional_id="billing-1") as producer:
        with producer.transaction() as transaction:
            transaction.send("bills", "paid").result()
            listed = http.get("/transactions", params={"state": "Ongoing"}).json()
            shown = http.get("/transactions/billing-1").json()
            open_ones = http.get("/topics/bills/producers", params={"open": "true"}).json()["producers"]
        ended = http.post("/transactions/billing-1/aborts")
        missing = http.get("/transactions/nobody")
        partition = http.post("/topics/bills/partitions/0/aborts", json={"producer_id": open_ones[0]["producer_id"]})

    assert [each["transactional_id"] for each in listed["transactions"]] == ["billing-1"]
    assert (shown["state"], shown["partitions"]) == ("Ongoing", [{"topic": "bills", "partition": 0}])
    assert (len(open_ones), open_ones[0]["open_from_offset"]) == (1, 0)
    assert (ended.status_code, ended.json()["code"]) == (409, "no_open_transaction")
    assert (missing.json()["code"], partition.json()["code"]) == ("transaction_not_found", "no_open_transaction")


def test_a_queue_is_shown_moved_set_and_deleted(http: httpx.Client, broker: Broker) -> None:
    with RawClient(broker.bootstrap) as client:
        member = ShareMember(client, "tasks-queue", "tasks")
        member.join()
        member.produce(b"a", b"b", b"c")
        member.take()
        member.say(0, 0, 1)
        listed = http.get("/queues").json()["queues"]
        shown = http.get("/queues/tasks-queue").json()
        busy = http.patch("/queues/tasks-queue", json={"topic": "tasks", "to": "latest"})
        member.leave()
    settings = http.patch("/queues/tasks-queue/settings", json={"settings": {"share.record.lock.duration.ms": 20000}})
    until(lambda: http.get("/queues/tasks-queue").json()["members"] == [], "its member has left")
    moved = http.patch("/queues/tasks-queue", json={"topic": "tasks", "to": "latest"})
    forgotten = http.delete("/queues/tasks-queue/topics/tasks")
    gone = http.delete("/queues/tasks-queue")

    assert [each["name"] for each in listed] == ["tasks-queue"]
    assert (shown["state"], shown["members"][0]["topics"], shown["partitions"][0]["topic"]) == ("Stable", ["tasks"], "tasks")
    assert busy.status_code == 409, busy.text
    assert settings.json()["settings"]["share.record.lock.duration.ms"]["value"] == "20000", settings.text
    assert moved.json()["partitions"][0]["first_undone"] == 3, moved.text
    assert (forgotten.status_code, gone.status_code) == (204, 204)
    assert http.get("/queues/tasks-queue").json()["code"] == "queue_not_found"


def test_loggers_and_client_metrics_are_shown_and_changed(http: httpx.Client) -> None:
    broker = http.get("/brokers").json()["brokers"][0]["id"]
    changed = http.put(f"/brokers/{broker}/loggers/headrace.broker.cluster", json={"level": "DEBUG"})
    loggers = http.get(f"/brokers/{broker}/loggers", params={"prefix": "headrace.broker.cluster"}).json()["loggers"]
    back = http.put(f"/brokers/{broker}/loggers/headrace.broker.cluster", json={"level": "default"})
    asked = http.put("/client-metrics/latency", json={"metrics": ["org.apache.kafka.producer"], "match": {"client_id": "b.*"}})
    names = [each["name"] for each in http.get("/client-metrics").json()["client_metrics"]]
    gone = http.delete("/client-metrics/latency")

    assert (changed.status_code, loggers["headrace.broker.cluster"], back.status_code) == (204, "DEBUG", 204)
    assert (asked.json()["settings"]["match"], names, gone.status_code) == ("client_id=b.*", ["latency"], 204), asked.text
    assert http.delete("/client-metrics/latency").json()["code"] == "client_metrics_not_found"


def test_a_broker_that_is_up_is_not_forgotten(http: httpx.Client) -> None:
    broker = http.get("/brokers").json()["brokers"][0]["id"]

    assert http.delete(f"/brokers/{broker}").status_code in (400, 409)
    assert len(http.get("/brokers").json()["brokers"]) == 1
