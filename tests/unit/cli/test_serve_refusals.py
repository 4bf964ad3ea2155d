"""A broker that cannot start says in a sentence what stands in its way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


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
