"""Users from the command line: added, shown, changed, removed; and the first one, while the broker is stopped."""

import json
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


def test_a_user_is_added_shown_changed_and_removed(client: Command, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
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
        (tmp_path / "password").write_text(content)
        assert client("user", "add", "ann", "--password-file", str(tmp_path / "password")).code == 1
    assert client("user", "add", "ann", "--password-file", str(tmp_path / "nothing")).code == 1


def test_the_first_user_is_added_while_the_broker_is_stopped(client: Command, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    data = tmp_path / "data"

    assert client("user", "add", "ann", "--data", str(data), "--password-file", str(tmp_path / "password")).code == 0

    with Broker(data=data) as broker:
        kept = broker.run(lambda real: dict(real.image.scram_credentials))
        with pytest.raises(StorageError, match="another broker is using"):
            broker.call(store_user(data, "bob", "secret"))
    assert {name for name, _ in kept} == {"ann"}
    assert all(password_matches(mechanism, kept["ann", mechanism], "secret") for mechanism in ScramMechanism)
