"""A broker that cannot start says in a sentence what stands in its way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.app import Broker
from headrace.metadata.membership import NodeIdTaken


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "nosuchhost.invalid:29001", "--data", "DATA"], "cannot listen at nosuchhost.invalid: "),
        (["--listen", "127.0.0.1:29001", "--data", "FILE"], "FILE is not a directory."),
        (
            ["--listen", "127.0.0.1:29001", "--set", "headrace.health.listener=127.0.0.1:29001", "--data", "DATA"],
            "headrace.health.listener: 127.0.0.1:29001 has the port of a listener, 29001",
        ),
    ],
)
def test_what_stands_in_the_way_is_named(headrace: Callable[..., Any], tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "FILE").write_text("mine")
    placed = [str(tmp_path / each) if each in ("DATA", "FILE") else each for each in arguments]
    refused = headrace("serve", *placed)

    assert refused.code == 1
    assert said in refused.remarks


def test_whoever_has_the_node_id_is_told_with_what_to_do(headrace: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # That these words are said is tested with the membership.
    words = "another broker has node.id 1 already, at other.example:9092; stop that one, or give this one another id"

    async def start(broker: Broker) -> None:
        raise NodeIdTaken(words)

    monkeypatch.setattr(Broker, "start", start)
    refused = headrace("serve", "--memory", "--listen", "127.0.0.1:0")

    assert refused.code == 1
    assert refused.remarks == f"headrace: the broker cannot start: {words}.\n"
