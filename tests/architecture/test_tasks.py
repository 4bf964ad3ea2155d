"""Every task has a parent: the supervision alone makes them, but for those that are waited for where they are made."""

import ast
from typing import TypeGuard

import pytest

from tests.support.source_tree import SOURCE, in_one_worker, modules, name_of, tree_of

pytestmark = in_one_worker

MAKERS = {"create_task", "ensure_future", "TaskGroup"}

# file -> why it may.
EXCEPTIONS = {
    "headrace/broker/supervision/supervision.py": "this is where tasks are made",
    "headrace/metadata/sqlite.py": "a write goes on when its caller goes away, and is waited for by whoever closes the store",
    "headrace/metadata/etcd_http.py": "calls that race each other, all of them ended by the one who started them",
    "headrace/gateway/serving/tasks.py": "the gateway's, which knows nothing of a broker's supervision",
    "headrace/client/aio/arrivals.py": "the client's, which runs on the user's loop",
    "headrace/client/queue/member.py": "the client's, which runs on a loop of its own and ends them when it is closed",
    "headrace/client/push/tasks.py": "the client's, which runs on the user's loop",
}


def makes_tasks(tree: ast.AST) -> list[int]:
    """The lines on which something that makes tasks is reached or imported."""
    return [node.lineno for node in ast.walk(tree) if _is_maker(node)]


def _is_maker(node: ast.AST) -> TypeGuard[ast.Attribute | ast.ImportFrom]:
    if isinstance(node, ast.Attribute):
        return node.attr in MAKERS
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "asyncio":
        return any(alias.name in MAKERS | {"*"} for alias in node.names)
    return False


def test_tasks_are_made_by_the_supervision_alone() -> None:
    found = {name_of(path): lines for path in modules() if (lines := makes_tasks(tree_of(path)))}

    assert found.keys() - EXCEPTIONS.keys() == set(), f"{found}: use broker.spawn or a scope"


@pytest.mark.parametrize(
    "source",
    [
        "asyncio.create_task(work())",
        "loop.create_task(work())",
        "from asyncio import create_task",
        "from asyncio import sleep, ensure_future as begin",
        "from asyncio.taskgroups import TaskGroup",
        "from asyncio import *",
    ],
)
def test_whatever_makes_a_task_is_seen(source: str) -> None:
    assert makes_tasks(ast.parse(source)) == [1]


def test_what_makes_no_task_is_passed_over() -> None:
    assert makes_tasks(ast.parse("from asyncio import sleep, timeout")) == []


def test_every_exception_is_needed() -> None:
    assert [name for name in EXCEPTIONS if not makes_tasks(tree_of(SOURCE / name))] == []
