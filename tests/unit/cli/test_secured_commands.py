"""Every command that connects works on a broker with TLS, users and rules, by a profile; and says in a sentence what is wrong."""

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from confluent_kafka import Producer

from headrace.cli import main as cli
from headrace.testing import Broker

Command = Callable[..., Any]
# Spark runs these: tests/spark/test_secured.py.
OF_SPARK = {"pipeline run", "pipeline submit"}
# It stays: tests/integration/test_gateway_principals.py.
GATEWAY = {"gateway", "console"}
# What is typed, in this order; then the exit code, and what is said, in output or remarks.
STEPS: tuple[tuple[str, str, int, str], ...] = (
    ("topic create", "orders --partitions 2", 0, "Created orders"),
    ("topic create", "parked.dead-letter", 0, "Created"),
    ("topic list", "", 0, "orders"),
    ("topic describe", "orders", 0, "in sync"),
    ("topic alter", "orders --config retention.ms=1000000", 0, ""),
    ("topic alter", "orders --replication-factor 1", 0, ""),
    ("produce", "orders", 0, "2 records written"),
    ("consume", "orders", 0, "one"),
    ("consume", "orders --group readers", 0, ""),
    ("group list", "", 0, "readers"),
    ("group describe", "readers", 0, "readers"),
    ("group lag", "readers", 0, "orders"),
    ("group reset", "readers --topic orders --to earliest --execute", 0, ""),
    ("group delete", "readers --yes", 0, ""),
    ("transaction list", "", 0, "books"),
    ("transaction describe", "books", 0, "Ongoing"),
    ("producer list", "orders", 0, ""),
    ("transaction abort", "books --yes", 0, ""),
    ("dead-letter list", "", 0, "parked.dead-letter"),
    ("dead-letter list", "parked.dead-letter", 0, "Nothing waits"),
    ("dead-letter show", "parked.dead-letter --partition 0 --offset 0", 1, "the offset of a record that is there"),
    ("dead-letter redrive", "parked.dead-letter --yes", 0, "0 records sent back"),
    ("cluster status", "", 0, "HEALTHY"),
    ("doctor", "--data .", 0, "reached at"),
    ("recover", "--from file:///nothing/there --yes", 1, "has no topics to recover"),
    ("cluster rebalance", "--yes", 0, "Nothing to move"),
    ("cluster drain", "1 --dry-run", 1, ""),
    ("cluster replace", "1 2 --dry-run", 1, ""),
    ("cluster forget", "7", 1, ""),
    ("quota set", "user=bob producer_byte_rate=1000000", 0, "Changed user=bob"),
    ("quota list", "", 0, "producer_byte_rate"),
    ("user add", "bob", 0, "Added bob"),
    ("user list", "", 0, "bob"),
    ("user password", "bob", 0, "Changed the password of bob"),
    ("user remove", "bob", 0, "Removed bob"),
    ("acl allow", "--user bob --read orders", 0, "Made"),
    ("acl deny", "--user bob --write orders", 0, "Made"),
    ("acl list", "", 0, "bob"),
    ("acl check", "--user bob --write orders", 1, "no"),
    ("acl remove", "--user bob --yes", 0, "Removed"),
    ("audit tail", "", 0, "bob"),
    ("audit search", "--resource orders", 0, "orders"),
    ("topic purge", "orders --yes", 0, ""),
    ("topic delete", "orders --yes", 0, ""),
    ("client-metrics set", "all", 0, "all"),
    ("client-metrics list", "", 0, "all"),
    ("client-metrics delete", "all --yes", 0, ""),
    ("logs level", "headrace.broker DEBUG", 0, ""),
    ("topic create", "nightly", 0, "Created"),
    ("schedule add", "tidy --cron '0 3 * * *' --topic nightly --value now", 0, "tidy"),
    ("schedule list", "", 0, "tidy"),
    ("schedule show", "tidy", 0, "tidy"),
    ("schedule pause", "tidy", 0, "tidy"),
    ("schedule resume", "tidy", 0, "tidy"),
    ("schedule run", "tidy", 0, "tidy"),
    ("schedule remove", "tidy", 0, "tidy"),
    ("cancel", "orders alice", 1, "there is no topic orders"),
    ("queue put", "chores one two", 0, "2 jobs put"),
    ("queue peek", "chores --group helpers", 0, "two"),
    ("queue work", "chores --group helpers --idle 3s -- true", 0, "2 jobs done"),
    ("queue list", "", 0, "chores"),
    ("queue describe", "chores --group helpers", 0, "share.auto.offset.reset *"),
    ("queue pause", "helpers", 0, "gets no jobs"),
    ("queue resume", "helpers", 0, "gets jobs"),
    ("queue reset", "chores --group helpers --to earliest --execute", 0, "Done"),
)
NEVER_SAID = ("no broker answers", "secret", "AUTHORIZATION_FAILED")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"authorizer": "acl", "super.users": "User:ann", "connection.failed.authentication.delay.ms": 1}
    with Broker(tls=True, users={"ann": "secret", "eve": "hidden"}, settings=settings) as running:
        yield running


def write_profile(folder: Path, broker: Broker, **changes: str) -> None:
    config = broker.client_config("ann")
    keys = {
        "bootstrap": broker.bootstrap,
        "username": "ann",
        "password": "secret",
        "ca_file": config["ssl.ca.location"],
        **changes,
    }
    file = folder / "headrace" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("[profiles.secured]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items() if value))
    file.chmod(0o600)


@pytest.fixture
def secured(headrace: Command, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Commands that find a profile of the broker."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("HEADRACE_BOOTSTRAP", raising=False)
    monkeypatch.delenv("HEADRACE_PROFILE", raising=False)
    write_profile(tmp_path, broker)
    return headrace


def commands_with_brokers() -> set[str]:
    """Every command that takes --bootstrap, by its words."""
    root: Any = typer.main.get_command(cli.app)
    context = typer.Context(root, info_name="headrace")
    found = set()
    for name in cli.COMMANDS:
        command = root.get_command(context, name)
        inner = {f"{name} {each}": one for each, one in getattr(command, "commands", {}).items()} or {name: command}
        found |= {words for words, one in inner.items() if any(each.name == "bootstrap" for each in one.params)}
    return found


def test_every_command_is_walked() -> None:
    walked = {command for command, _, _, _ in STEPS}

    assert commands_with_brokers() == walked | OF_SPARK | GATEWAY, "a command that connects needs a step here"


@pytest.mark.slow
def test_every_command_works_by_a_profile(secured: Command, broker: Broker) -> None:
    producer = Producer({**broker.client_config("ann"), "transactional.id": "books"})
    producer.init_transactions(20)
    wrong = []
    for command, words, code, said in STEPS:
        if command == "transaction list":
            producer.begin_transaction()
            producer.produce("orders", b"booked")
            producer.flush(20)
        own, program, others = words.partition("-- ")  # what follows is somebody else's
        outcome = secured(
            *command.split(),
            *shlex.split(own),
            *("--profile", "secured"),
            *shlex.split(program + others),
            given=b"one\ntwo\n",
        )
        told = outcome.output + outcome.remarks
        if outcome.code != code or said not in told or any(each in told for each in NEVER_SAID):
            wrong.append((command, words, outcome))
    assert not wrong


def test_the_profile_may_stand_before_the_command_or_in_the_environment(
    secured: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert secured("--profile", "secured", "topic", "list").code == 0
    assert secured("--profile", str(tmp_path / "headrace/config.toml"), "quota", "list").code == 0
    assert secured("topic", "list", "-b", "127.0.0.1:1").code == 1
    monkeypatch.setenv("HEADRACE_PROFILE", "secured")
    assert secured("topic", "list").code == 0
    assert secured("cluster", "status").code == 0


def test_the_default_of_the_file_holds_where_nothing_is_named(secured: Command, tmp_path: Path) -> None:
    file = tmp_path / "headrace" / "config.toml"
    file.write_text('default = "secured"\n' + file.read_text())
    assert secured("quota", "list").code == 0


@pytest.mark.parametrize("command", [("topic", "list"), ("quota", "list")])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"password": "wrong"}, "rejected user ann (SCRAM-SHA-512); check user name and password"),
        ({"ca_file": ""}, "is not signed by an authority that this client trusts"),
        ({"security_protocol": "SASL_PLAINTEXT", "ca_file": ""}, "TLS"),
        ({"username": "", "password": "", "ca_file": "", "security_protocol": "PLAINTEXT"}, "TLS"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    secured: Command, broker: Broker, tmp_path: Path, command: tuple[str, str], changes: dict[str, str], said: str
) -> None:
    write_profile(tmp_path, broker, **changes)

    outcome = secured(*command, "--profile", "secured")

    assert (outcome.code, outcome.remarks.count("\n")) == (1, 1)
    assert said in outcome.remarks


def test_a_profile_that_others_may_read_is_refused(secured: Command, tmp_path: Path) -> None:
    file = tmp_path / "headrace" / "config.toml"
    file.chmod(0o644)

    outcome = secured("topic", "list", "--profile", "secured")

    assert (outcome.code, outcome.remarks.count("\n")) == (1, 1)
    assert f"chmod 600 {file}" in outcome.remarks


def test_a_password_as_an_argument_is_refused(secured: Command) -> None:
    outcome = secured("topic", "list", "-X", "sasl.password=planted", "-X", "sasl.username=ann")

    assert outcome.code == 2
    assert "sasl.password is a secret" in outcome.remarks
    assert "planted" not in outcome.remarks


def test_profiles_are_shown_without_their_secrets(secured: Command, broker: Broker, tmp_path: Path) -> None:
    write_profile(tmp_path, broker, password="planted")

    listed, shown = secured("profile", "list"), secured("profile", "show", "secured")
    as_json = secured("profile", "show", "secured", "--json")

    assert (listed.code, shown.code, as_json.code) == (0, 0, 0)
    assert broker.bootstrap in listed.output
    assert json.loads(as_json.output)["username"] == "ann"
    assert "(hidden)" in shown.output
    assert "planted" not in listed.output + shown.output + as_json.output
    assert "did you mean 'secured'?" in secured("profile", "show", "secure").remarks


def test_a_profile_that_cannot_be_used_is_listed_with_what_is_wrong(
    headrace: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "headrace").mkdir()
    text = '[profiles.good]\nbootstrap = "host:1"\n\n[profiles.bad]\nbotstrap = "host:1"\n'
    (tmp_path / "headrace" / "config.toml").write_text(text)

    listed = headrace("profile", "list", "--json")

    assert listed.code == 0
    good, bad = json.loads(listed.output)
    assert (good["name"], good["bootstrap"], good["error"]) == ("good", "host:1", None)
    assert bad["error"].endswith("profile bad: there is no key 'botstrap'; did you mean 'bootstrap'?")
    assert "botstrap" in headrace("profile", "list").output
