"""`headrace client-metrics`: what clients are asked for, set, shown and taken back."""

import json
from collections.abc import Callable

from tests.unit.cli.conftest import Outcome

Command = Callable[..., Outcome]


def test_a_subscription_is_set_listed_and_deleted(client: Command) -> None:
    assert "No client is asked" in client("client-metrics", "list").remarks
    outcome = client("client-metrics", "set", "slow", "--metrics", "org.a", "--metrics", "org.b", "--match", "client_id=shop.*")
    assert outcome.code == 0, outcome.remarks
    client("client-metrics", "set", "all", "--interval", "1000")

    assert json.loads(client("client-metrics", "list", "--json").output) == [
        {"name": "all", "metrics": "*", "interval.ms": "1000", "match": ""},
        {"name": "slow", "metrics": "org.a,org.b", "interval.ms": "60000", "match": "client_id=shop.*"},
    ]
    assert "org.a,org.b" in client("client-metrics", "list").output
    for name in ("slow", "all"):
        assert client("client-metrics", "delete", name, "--yes").code == 0
    assert client("client-metrics", "list", "--json").output.strip() == "[]"


def test_setting_it_again_replaces_all_of_it(client: Command) -> None:
    client("client-metrics", "set", "one", "--match", "client_id=a")
    client("client-metrics", "set", "one")
    (found,) = json.loads(client("client-metrics", "list", "--json").output)
    client("client-metrics", "delete", "one", "--yes")

    assert found["match"] == ""


def test_what_is_wrong_is_said_and_not_kept(client: Command) -> None:
    for words, said in (
        (("--interval", "5"), "interval.ms=5 is below its minimum, 100"),
        (("--match", "colour=red"), "match wants NAME=PATTERN"),
    ):
        outcome = client("client-metrics", "set", "x", *words)
        assert outcome.code == 1
        assert said in outcome.remarks
    assert client("client-metrics", "list", "--json").output.strip() == "[]"


def test_what_is_not_there_cannot_be_deleted(client: Command) -> None:
    outcome = client("client-metrics", "delete", "nothing", "--yes")

    assert outcome.code == 2
    assert "There is no subscription nothing" in outcome.remarks
