"""Every task has a parent: the supervision alone makes them, but for those that are waited for where they are made."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
MAKERS = {"create_task", "ensure_future", "TaskGroup"}

# file -> why it may.
EXCEPTIONS = {
    "headrace/broker/supervision/supervision.py": "this is where tasks are made",
    "headrace/metadata/sqlite.py": "a write goes on when its caller goes away, and is waited for by whoever closes the store",
    "headrace/metadata/etcd_http.py": "calls that race each other, all of them ended by the one who started them",
    "headrace/client/aio.py": "the client's, which runs on the user's loop",
    "headrace/client/push/tasks.py": "the client's, which runs on the user's loop",
}


def makes_tasks(path: Path) -> list[int]:
    tree = ast.parse(path.read_text())
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in MAKERS]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_tasks_are_made_by_the_supervision_alone(path: Path) -> None:
    found = makes_tasks(path)

    assert not found or str(path.relative_to(SOURCE)) in EXCEPTIONS, f"lines {found}: use broker.spawn or a scope"


def test_every_exception_is_needed() -> None:
    assert [name for name in EXCEPTIONS if not makes_tasks(SOURCE / name)] == []
