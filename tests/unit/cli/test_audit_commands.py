"""The audit trail from the command line: what was done last, and what one looks for."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.cli.cluster.audit import Wanted, outcome_of
from headrace.testing import Broker
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from tests.support.audit import events_of
from tests.support.raw import RawClient, batch, produce
from tests.support.users import take_client_ids_for_users
from tests.support.waiting import until

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def audited() -> Iterator[Broker]:
    """Where root made topics and eve was denied something."""
    with pytest.MonkeyPatch.context() as patch:
        take_client_ids_for_users(patch)
        with Broker(settings={"authorizer": "acl", "super.users": "User:root"}) as broker:
            yield broker


@pytest.fixture
def audit(client: Command, audited: Broker) -> Command:
    return lambda *words: client("audit", *words, "--bootstrap", audited.bootstrap, "-X", "client.id=root")


@pytest.fixture(scope="module", autouse=True)
def _story(audited: Broker) -> None:
    from headrace.cli.main import run

    where = ("--bootstrap", audited.bootstrap, "-X", "client.id=root")
    assert run(["topic", "create", "orders", "--partitions", "2", *where]) == 0
    assert run(["topic", "create", "bills", *where]) == 0
    assert run(["topic", "delete", "bills", "--yes", *where]) == 0
    with RawClient(audited.bootstrap, client_id="eve") as eve:
        eve.call(produce("orders", batch(b"x")), 9)
    with RawClient(audited.bootstrap, client_id="root") as root:
        root.call(DeleteGroupsRequest(groups_names=("missing", "evil\x1b[31m")), 2)
    until(lambda: any("eve" in str(event) for event in events_of(audited)), "the denial is recorded")


def found(audit: Command, *words: str) -> list[dict[str, Any]]:
    outcome = audit("search", "--json", *words)
    assert outcome.code == 0, outcome.remarks
    return [json.loads(line) for line in outcome.output.splitlines()]


def test_the_last_events_are_a_table(audit: Command) -> None:
    lines = audit("tail").output.splitlines()

    (deleted,) = (line for line in lines if "DeleteTopics" in line)
    assert "User:root" in deleted
    assert "topic bills" in deleted
    assert "done" in deleted
    assert "partitions: 1 → -" in deleted
    assert len(audit("tail", "-n", "1").output.split("\n")) < len(lines)


def test_what_somebody_calls_a_thing_does_not_steer_the_terminal(audit: Command) -> None:
    shown = audit("tail").output

    assert "\x1b" not in shown
    assert "group evil\\x1b[31m" in shown


def test_with_json_each_event_is_a_line_as_it_is_in_the_topic(audit: Command, audited: Broker) -> None:
    assert [json.loads(line) for line in audit("tail", "-n", "1000", "--json").output.splitlines()] == events_of(audited)


@pytest.mark.parametrize(
    ("words", "actions"),
    [
        (("--user", "root", "--resource", "bills"), {"CreateTopics", "DeleteTopics"}),
        (("--user", "User:root", "--action", "delete"), {"DeleteTopics", "DeleteGroups"}),
        (("--action", "CreateTopics"), {"CreateTopics"}),
        (("--action", "create*"), {"CreateTopics"}),
        (("--resource", "topic:bil*"), {"CreateTopics", "DeleteTopics"}),
        (("--resource", "group:missing"), {"DeleteGroups"}),
        (("--resource", "topic:missing"), set()),
        (("--outcome", "denied"), {"Produce"}),
        (("--outcome", "failed"), {"DeleteGroups"}),
        (("--outcome", "done", "--resource", "orders"), {"CreateTopics"}),
        (("--user", "nobody"), set()),
        (("--since", "1h", "--resource", "bills"), {"CreateTopics", "DeleteTopics"}),
        (("--until", "1h"), set()),
        (("--since", "2000-01-01", "--until", "2000-01-02"), set()),
    ],
)
def test_a_search_is_by_principal_resource_action_time_and_outcome(
    audit: Command, words: tuple[str, ...], actions: set[str]
) -> None:
    assert {event["api"]["operation"] for event in found(audit, *words)} == actions


def test_a_search_ends_after_so_many(audit: Command) -> None:
    assert len(found(audit, "--limit", "2")) == 2


def test_nothing_found_is_said(audit: Command) -> None:
    assert audit("search", "--user", "nobody").remarks == "Nothing was found.\n"


@pytest.mark.parametrize("time", ["latest", "yesterday", "7"])
def test_a_time_that_is_none_is_refused_in_a_sentence(audit: Command, time: str) -> None:
    refused = audit("search", "--since", time)

    assert refused.code == 2
    assert f"'{time}' is not a time; write an ISO timestamp such as 2026-05-01T12:00, or 30m, 12h, 7d" in one_line(refused)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("CreateTopic", "did you mean CreateTopics?"),
        ("Foo", "one of create, read, update, delete, sign-in"),
        ("Foo*", "no action"),
    ],
)
def test_an_action_that_does_not_exist_is_refused_with_those_that_do(audit: Command, action: str, said: str) -> None:
    refused = audit("search", "--action", action)

    assert refused.code == 2
    assert said in one_line(refused)


def one_line(outcome: Any) -> str:
    """An error without the frame around it."""
    return " ".join(outcome.remarks.replace("│", " ").split())


def test_signing_in_is_an_action(audit: Command) -> None:
    assert audit("search", "--action", "sign-in").code == 0


def test_where_there_is_no_trail_it_is_said_how_to_get_one(client: Command) -> None:
    with Broker() as other:
        missing = client("audit", "tail", "--bootstrap", other.bootstrap)

    assert missing.code == 1
    assert "headrace.audit=on" in missing.remarks


def test_who_may_not_read_it_is_told_what_it_takes(client: Command, audited: Broker) -> None:
    refused = client("audit", "tail", "--bootstrap", audited.bootstrap, "-X", "client.id=eve")

    assert refused.code == 1
    assert "you may not read __audit" in refused.remarks
    assert "headrace acl allow" in refused.remarks


def test_who_may_read_it_is_denied_nothing_while_reading(client: Command, audited: Broker) -> None:
    as_root, as_ann = (("--bootstrap", audited.bootstrap, "-X", f"client.id={name}") for name in ("root", "ann"))
    assert client("acl", "allow", "--user", "ann", "--read", "__audit", *as_root).code == 0

    assert client("audit", "tail", *as_ann).code == 0
    assert client("acl", "remove", "--user", "ann", "--yes", *as_root).code == 0
    with RawClient(audited.bootstrap, client_id="mallory") as mallory:
        mallory.call(produce("orders", batch(b"x")), 9)
    until(lambda: any("mallory" in str(event) for event in events_of(audited)), "what was denied before is recorded, too")

    assert [event for event in events_of(audited) if outcome_of(event) == "denied" and "User:ann" in str(event)] == []


def test_a_failed_sign_in_is_a_denial_and_is_found_as_one() -> None:
    event = {
        "class_uid": 3002,
        "activity_id": 1,
        "status_id": 2,
        "status_code": "X",
        "time": time.time() * 1000,
        "user": {"uid": "User:a"},
    }

    assert outcome_of(event).value == "denied"
    assert Wanted(action="sign-in").matches(event)
    assert not Wanted(action="create").matches(event)
