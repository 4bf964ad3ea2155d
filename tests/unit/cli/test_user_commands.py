"""Users from the command line: added, shown, changed, removed; and the first one, while the broker is stopped."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.sign_in.first_users import store_user
from headrace.model.access.scram import ScramMechanism, password_matches
from headrace.model.errors import StorageError
from headrace.testing import Broker

Command = Callable[..., Any]


def mechanisms(client: Command, name: str) -> list[str]:
    rows = json.loads(client("user", "list", "--json").output)
    return [row["mechanism"] for row in rows if row["user"] == name]


def write_private(file: Path, content: str) -> None:
    file.touch(mode=0o600)
    file.write_text(content)


@pytest.mark.parametrize("act", ["add", "password"])
def test_a_password_on_the_command_line_is_refused_and_not_repeated(headrace: Command, act: str) -> None:
    refused = headrace("user", act, "ann", "planted-secret", "--bootstrap", "127.0.0.1:1")

    assert refused.code == 2
    assert "--password-file" in refused.remarks
    assert "planted-secret" not in refused.remarks + refused.output


def test_a_user_is_added_shown_changed_and_removed(client: Command, tmp_path: Path) -> None:
    write_private(tmp_path / "password", "secret\n")
    given = ("--password-file", str(tmp_path / "password"))

    assert client("user", "password", "ann", *given).code == 1
    assert client("user", "add", "ann", *given).code == 0
    assert mechanisms(client, "ann") == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert "SCRAM-SHA-512" in client("user", "list").output
    assert client("user", "add", "ann", *given).code == 1
    assert client("user", "password", "ann", *given).code == 0
    assert client("user", "remove", "ann").code == 0
    assert mechanisms(client, "ann") == []
    assert client("user", "remove", "ann").code == 1


def test_a_password_is_not_taken_that_some_clients_would_change(client: Command, tmp_path: Path) -> None:
    for content in ("", "a\u00adb", "\n"):
        write_private(tmp_path / "password", content)
        assert client("user", "add", "ann", "--password-file", str(tmp_path / "password")).code == 1
    assert client("user", "add", "ann", "--password-file", str(tmp_path / "nothing")).code == 1


def test_a_password_file_is_refused_if_others_may_read_it(client: Command, tmp_path: Path) -> None:
    write_private(tmp_path / "password", "secret")
    (tmp_path / "password").chmod(0o644)

    refused = client("user", "add", "ann", "--password-file", str(tmp_path / "password"))

    assert refused.code == 1
    assert "chmod 600" in refused.remarks
    assert mechanisms(client, "ann") == []


def test_a_user_signs_in_with_the_file_that_the_password_came_from(client: Command, tmp_path: Path) -> None:
    write_private(tmp_path / "password", "secret \n")
    with Broker(users={"root": "root-secret"}) as broker:
        given = ("--password-file", str(tmp_path / "password"), "--profile", str(broker.profile("root")))
        assert client("user", "add", "ann", *given).code == 0
        profile = f"""[profiles.ann]
bootstrap = "{broker.bootstrap}"
security_protocol = "SASL_PLAINTEXT"
username = "ann"
password_file = "password"
"""
        write_private(tmp_path / "ann.toml", profile)
        assert client("topic", "list", "--profile", str(tmp_path / "ann.toml")).code == 0


def test_the_first_user_is_added_while_the_broker_is_stopped(client: Command, tmp_path: Path) -> None:
    write_private(tmp_path / "password", "secret")
    data = tmp_path / "data"

    assert client("user", "add", "ann", "--data", str(data), "--password-file", str(tmp_path / "password")).code == 0

    with Broker(data=data) as broker:
        kept = broker.run(lambda real: dict(real.image.scram_credentials))
        with pytest.raises(StorageError, match="another broker is using"):
            broker.call(store_user(data, "bob", "secret"))
    assert {name for name, _ in kept} == {"ann"}
    assert all(password_matches(mechanism, kept["ann", mechanism], "secret") for mechanism in ScramMechanism)


def test_who_may_not_see_the_users_is_told_so() -> None:
    settings = {"authorizer": "acl", "super.users": "User:root"}
    with Broker(settings=settings, users={"root": "root-secret", "ann": "ann-secret"}) as broker:
        # In a process of its own: what a library does to the process is part of the answer.
        refused = subprocess.run(
            [sys.executable, "-m", "headrace", "user", "list", "--profile", str(broker.profile("ann"))],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert refused.returncode == 1
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused.stderr
