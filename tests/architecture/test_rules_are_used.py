"""A rule that only the tests call is proven and not kept.  Every decision that the scenarios play has a caller in the broker."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.source_tree import SOURCE, in_one_worker, modules, tree_of

pytestmark = in_one_worker

DECISIONS = ("replication", "controller", "coordination", "security")

# Rooms, and modules, that stand before anybody moves in: the broker does not ask yet.  One that it does ask leaves this list.
NOT_YET_USED: tuple[str, ...] = ()


def modules_of_decisions() -> list[Path]:
    return sorted(path for package in DECISIONS for path in (SOURCE / "headrace" / package).rglob("*.py"))


def public_rules(tree: ast.Module) -> Iterator[tuple[str, str, ast.AST]]:
    """What a module offers: its functions and classes, its constants, and the methods of its classes."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if not name.startswith("_"):
                yield "name", name, node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                yield "name", name, node
        if isinstance(node, ast.ClassDef):
            yield from (
                ("method", each.name, each)
                for each in node.body
                if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
            )


@cache
def used_in(tree: ast.AST) -> Counter[str]:
    """`name` for what is read by its name, `.name` for what is reached through a dot, `module:name` for what is imported."""
    used: Counter[str] = Counter()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used[name] += 1
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                used.update((f".{name}", f"{owner}.{name}"))
            case ast.Attribute(attr=name):
                used[f".{name}"] += 1
            case ast.ImportFrom(module=module, names=names):
                used.update(f"{module}:{alias.name}" for alias in names)
    return used


@cache
def used_in_the_product() -> Counter[str]:
    total: Counter[str] = Counter()
    for path in modules():
        # The testing package drives the broker: whom only it calls, nobody is served by.
        if path.relative_to(SOURCE).parts[:2] != ("headrace", "testing"):
            total.update(used_in(tree_of(path)))
    return total


def unused(module: str, tree: ast.Module, product: Counter[str]) -> Iterable[str]:
    own = used_in(tree)
    for kind, name, node in public_rules(tree):
        by_itself = used_in(node)
        if kind == "method":
            called = product[f".{name}"] > by_itself[f".{name}"]
        else:
            here = own[name] > by_itself[name]
            called = here or bool(product[f"{module}:{name}"] or product[f"{module.rpartition('.')[2]}.{name}"])
        if not called:
            yield f"line {getattr(node, 'lineno', 0)}: {name}"


def is_not_yet_used(path: Path) -> bool:
    return str(path.relative_to(SOURCE)).startswith(NOT_YET_USED)


@pytest.mark.parametrize("room", NOT_YET_USED)
def test_a_room_that_is_not_used_yet_is_there_and_has_no_caller(room: str) -> None:
    module = room.replace("/", ".")
    users = [
        path
        for path in modules()
        if not is_not_yet_used(path) and any(name.startswith((f"{module}.", f"{module}:")) for name in used_in(tree_of(path)))
    ]

    assert (SOURCE / room).is_dir() or (SOURCE / f"{room}.py").exists()
    assert not users, "it has callers: take it off the list"


@pytest.mark.parametrize("path", modules_of_decisions(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_public_rule_has_a_caller_in_the_product(path: Path) -> None:
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)

    found = list(unused(module.removesuffix(".__init__"), tree_of(path), used_in_the_product()))

    if is_not_yet_used(path):
        pytest.skip("the broker does not use this room yet")
    assert not found, f"{path.relative_to(SOURCE)}: use it where the broker decides, or delete it"


def test_a_rule_that_nobody_calls_is_found() -> None:
    rules = ast.parse("def proven():\n    return proven()\n\n\nclass Rule:\n    def kept(self): ...\n    def held(self): ...\n")
    broker = used_in(ast.parse("from headrace.rules import Rule\n\nRule().kept()\n"))

    assert list(unused("headrace.rules", rules, broker)) == ["line 1: proven", "line 7: held"]


# Whom other people's code calls: asyncio, http.server, Spark, pytest and task frameworks, and the users of the SDK.
CALLED_BY_OTHERS = {
    *(
        "connection_made",
        "connection_lost",
        "data_received",
        "pause_writing",
        "resume_writing",
        "do_GET",
        "log_message",
        "on_message",
    ),
    *("onQueryStarted", "onQueryProgress", "onQueryIdle", "onQueryTerminated", "streamReader", "streamWriter", "initialOffset"),
    *("getDefaultReadLimit", "prepareForTriggerAvailableNow", "reportLatestOffset", "take_kafka_modes"),
    "check_reader_writer_record_fields",
    *("get_declared_delay_queues", "nack", "requeue", "kick"),  # dramatiq and taskiq
}


def names_in(tree: ast.AST) -> Iterator[str]:
    """Every name that is read, reached, imported, passed or told in a string."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)) | ast.Constant(value=str(name)):
                yield name
            case ast.alias(name=name):
                yield name.rpartition(".")[2]


def product_without_testing() -> list[Path]:
    return [path for path in modules() if path.relative_to(SOURCE).parts[:2] != ("headrace", "testing")]


def test_no_function_is_there_for_nobody() -> None:
    """Whatever is called by its name at all is not seen here, but by the other tests; commands are called by their decorator."""
    beside = [*(SOURCE.parent / "pipelines").rglob("*.py"), *(SOURCE.parent / "docs").glob("*.py")]
    users = [*product_without_testing(), *beside]
    used = {name for path in users for name in names_in(tree_of(path))} | CALLED_BY_OTHERS

    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {node.name}"
        for path in product_without_testing()
        if not is_not_yet_used(path) and path.relative_to(SOURCE).parts[1] != "model"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("__")
        and not any(isinstance(decorator, ast.Call) for decorator in node.decorator_list)
        and node.name not in used
    ]

    assert not found, "delete it"
