"""Rules from the command line: made, shown, asked and removed; what a client needs; and what is refused in a sentence."""

import json
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.client.admin.acls import RuleAdmin
from headrace.testing import Broker

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    with Broker(settings={"authorizer": "acl", "super.users": "User:ANONYMOUS"}) as broker:
        yield broker


@pytest.fixture
def acl(client: Command, guarded: Broker) -> Iterator[Command]:
    """`headrace acl …`, on a cluster without rules."""

    def run(command: str, *arguments: str) -> Any:
        return client("acl", command, *arguments, "--bootstrap", guarded.bootstrap)

    yield run
    for who in ("ann", "bob", "*", "Group:ops"):
        run("remove", "--user", who, "--yes")


def test_rules_are_made_and_shown(acl: Command) -> None:
    made = acl("allow", "--user", "ann", "--read", "orders-*", "--read", "group:readers", "--host", "10.0.0.0/8")
    acl("deny", "--user", "Group:ops", "--alter", "cluster")
    table = acl("list").output
    rules = json.loads(acl("list", "--user", "ann", "--json").output)

    assert made.code == 0
    assert "Made: allow User:ann to READ TOPIC 'orders-'… from 10.0.0.0/8." in made.remarks
    assert "orders-*" in table
    assert "group:readers" in table
    assert "Group:ops" in table
    assert {(rule["resource_type"], rule["resource_name"], rule["pattern_type"], rule["host"]) for rule in rules} == {
        ("TOPIC", "orders-", "PREFIXED", "10.0.0.0/8"),
        ("GROUP", "readers", "LITERAL", "10.0.0.0/8"),
    }


def test_check_says_yes_or_no_and_by_which_rule(acl: Command) -> None:
    acl("allow", "--user", "ann", "--write", "orders-*")
    acl("deny", "--user", "*", "--write", "orders-old")

    yes = acl("check", "--user", "ann", "--write", "orders-new", "--describe", "orders-new")
    denied = acl("check", "--user", "ann", "--write", "orders-old")
    nothing = acl("check", "--user", "bob", "--read", "group:readers")
    root = acl("check", "--user", "ANONYMOUS", "--alter", "cluster")

    assert yes.code == root.code == 0
    assert "write orders-new: yes, by rule: allow User:ann to WRITE TOPIC 'orders-'…" in yes.output
    assert denied.code == nothing.code == 1
    assert "write orders-old: no, by rule: deny User:* to WRITE TOPIC 'orders-old'" in denied.output
    assert "read group:readers: no: no rule allows it" in nothing.output
    assert "alter cluster: yes: a super user may do everything" in root.output


def test_check_knows_what_brokers_let_nobody_write_and_which_topics_need_their_name(acl: Command) -> None:
    acl("allow", "--user", "ann", "--all", "*")

    written = acl("check", "--user", "ANONYMOUS", "--write", "__audit")
    read = acl("check", "--user", "ann", "--read", "__audit")

    assert written.code == read.code == 1
    assert "write __audit: no: only brokers write to this topic, whatever the rules say" in written.output
    assert "read __audit: no: no rule allows it that names this topic" in read.output


def test_check_says_which_brokers_decide_otherwise(acl: Command, monkeypatch: pytest.MonkeyPatch, guarded: Broker) -> None:
    settings = {"authorizer": "acl", "super.users": "User:ann", "allow.everyone.if.no.acl.found": "false"}
    others = {2: settings, 3: {**settings, "super.users": ""}, 4: settings}

    monkeypatch.setattr(RuleAdmin, "broker_settings", lambda self: others)
    differing = acl("check", "--user", "ann", "--read", "orders")
    alike = acl("check", "--user", "ann", "--write", "__audit")
    others[3] = {"authorizer": "none"}
    half_open = acl("check", "--user", "ann", "--read", "orders")

    assert (differing.code, half_open.code) == (1, 1)
    assert "read orders: it depends on the broker" in differing.output
    assert "  on brokers 2, 4: yes: a super user may do everything\n  on broker 3: no: no rule allows it" in differing.output
    assert "write __audit: no: only brokers write to this topic" in alike.output
    assert "broker 3 of this cluster: no authorizer" in half_open.remarks


def test_check_lists_the_rules_that_depend_on_the_address(acl: Command) -> None:
    acl("allow", "--user", "ann", "--write", "orders")
    acl("deny", "--user", "ann", "--write", "orders", "--host", "10.0.0.0/8")
    acl("allow", "--user", "bob", "--write", "orders", "--host", "10.1.0.0/16")

    ann, bob = (acl("check", "--user", name, "--write", "orders") for name in ("ann", "bob"))
    near, far = (acl("check", "--user", "ann", "--write", "orders", "--host", each) for each in ("10.0.0.1", "11.0.0.1"))
    network = acl("check", "--user", "ann", "--write", "orders", "--host", "10.0.0.0/8")

    assert (ann.code, bob.code, near.code, far.code, network.code) == (0, 1, 1, 0, 2)
    assert "from some addresses it is otherwise" in ann.output
    assert "deny User:ann to WRITE TOPIC 'orders' from 10.0.0.0/8" in ann.output
    assert "allow User:bob to WRITE TOPIC 'orders' from 10.1.0.0/16" in bob.output
    assert "otherwise" not in near.output + far.output
    assert "ask about one" in " ".join(network.remarks.split())


def test_check_knows_the_rules_of_groups(acl: Command) -> None:
    acl("allow", "--user", "Group:ops", "--alter", "cluster")

    alone = acl("check", "--user", "ann", "--alter", "cluster")
    members = [acl("check", "--user", "ann", "--group-of", name, "--alter", "cluster") for name in ("ops", "Group:ops")]
    itself = acl("check", "--user", "Group:ops", "--alter", "cluster")

    assert alone.code == 1
    assert [each.code for each in (*members, itself)] == [0, 0, 0]
    assert "by rule: allow Group:ops to ALTER" in members[0].output


def test_a_template_names_no_more_than_it_was_given(client: Command) -> None:
    for kind in ("producer", "consumer", "transactional", "spark"):
        refused = client("acl", "template", kind, "--user", "ann")
        assert (refused.code, refused.output) == (2, "")
        assert "needs --topic" in " ".join(refused.remarks.replace("│", " ").split())
    refused = client("acl", "template", "transactional", "--user", "ann", "--topic", "orders", "--group", "readers")
    assert (refused.code, refused.output) == (2, "")
    alone = client("acl", "template", "consumer", "--user", "ann", "--topic", "orders").output.splitlines()

    assert alone == [
        "headrace acl allow --user ann --read orders  # to read, and to commit offsets",
        "# without --group: no right to be in the group",
    ]


def test_rules_are_removed_one_by_one_or_all_of_a_user(acl: Command) -> None:
    acl("allow", "--user", "ann", "--write", "orders", "--read", "orders", "--read", "bills")
    one = acl("remove", "--user", "ann", "--write", "orders")
    none = acl("remove", "--user", "ann", "--write", "orders")
    rest = acl("remove", "--user", "ann", "--yes")

    assert "Removed: allow User:ann to WRITE TOPIC 'orders'." in one.remarks
    assert "There was no such rule." in none.remarks
    assert rest.remarks.count("Removed:") == 2
    assert json.loads(acl("list", "--json").output) == []


@pytest.mark.parametrize("kind", ["producer", "consumer", "transactional", "spark", "gateway", "admin"])
def test_a_template_is_commands_that_allow_what_a_client_needs(acl: Command, client: Command, kind: str) -> None:
    given = ("--topic", "orders", "--group", "readers", "--transactional-id", "loads")
    lines = client("acl", "template", kind, "--user", "ann", *given).output.splitlines()

    for line in lines:
        program, area, command, *arguments = shlex.split(line, comments=True)
        assert (program, area, command) == ("headrace", "acl", "allow")
        assert acl(command, *arguments).code == 0
    assert len(json.loads(acl("list", "--user", "ann", "--json").output)) == len(lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("allow", "--user", "ann"), "Say what"),
        (("allow", "--user", "ann", "--write", "planet:mars"), "is not a resource"),
        (("allow", "--user", "a\nb", "--write", "orders"), "cannot be seen"),
        (("allow", "--user", "ann", "--write", "orders", "--host", "here"), "is not a host"),
        (("allow", "--user", "ann", "--cluster-action", "orders"), "--cluster-action has no effect on a topic"),
        (("deny", "--user", "ann", "--write", "group:x"), "--write has no effect on a group; there are --read, --delete"),
        (("check", "--user", "ann", "--write", "orders-*"), "ask about one"),
    ],
    ids=["nothing", "resource", "user", "host", "topic", "group", "pattern"],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(acl: Command, arguments: tuple[str, ...], said: str) -> None:
    refused = acl(*arguments)

    assert refused.code == 2
    assert said in " ".join(refused.remarks.replace("│", " ").split())


def test_a_cluster_without_an_authorizer_says_so(client: Command) -> None:
    listed = client("acl", "list")
    checked = client("acl", "check", "--user", "ann", "--read", "orders")
    made = client("acl", "allow", "--user", "ann", "--read", "orders")

    assert listed.code == checked.code == made.code == 1
    assert "everybody may do everything" in listed.remarks
    assert "everybody may do everything" in checked.remarks
    assert "SECURITY_DISABLED" in made.remarks


def test_rules_hold_for_those_who_sign_in_with_a_password(client: Command) -> None:
    users = {"root": "root-secret", "ann": "ann-secret"}
    with Broker(settings={"authorizer": "acl", "super.users": "User:root"}, users=users) as broker:

        def signed_in(user: str) -> list[str]:
            return ["--profile", str(broker.profile(user))]

        refused = client("acl", "list", *signed_in("ann"))
        created = client("topic", "create", "orders", *signed_in("ann"))
        made = client("acl", "allow", "-u", "ann", "--describe", "cluster", *signed_in("root"))
        allowed = client("acl", "list", *signed_in("ann"))
        ghost = client("acl", "allow", "-u", "ghost", "--read", "orders", *signed_in("root"))
        none = client("acl", "list", "--user", "eve", *signed_in("ann"))

    assert refused.code == created.code == 1
    assert "that needs DESCRIBE on the cluster" in refused.remarks
    assert "(TOPIC_AUTHORIZATION_FAILED) Whoever makes the rules allows it with `headrace acl allow`." in created.remarks
    assert made.code == allowed.code == none.code == 0
    assert "There are no rules for User:eve." in none.remarks
    assert ghost.code == 0
    assert "No SCRAM user is called ghost" in ghost.remarks
    assert "No SCRAM user" not in made.remarks
    assert "User:ann" in allowed.output


def test_who_may_write_no_topic_is_told_so_in_a_sentence(client: Command) -> None:
    users = {"root": "root-secret", "ann": "ann-secret"}
    with Broker(settings={"authorizer": "acl", "super.users": "User:root"}, users=users) as broker:
        root, ann = (["--profile", str(broker.profile(user))] for user in users)
        assert client("topic", "create", "orders", *root).code == 0
        unseen = client("topic", "list", *ann)
        assert client("acl", "allow", "-u", "ann", "--read", "orders", *root).code == 0

        refused = client("produce", "orders", *ann, given=b"one\ntwo\n")

    assert "There are no topics, or none that you may see." in unseen.remarks
    assert refused.code == 1
    assert "0 records were written to orders and 2 were not: this user has no right to WRITE to any topic" in refused.remarks
