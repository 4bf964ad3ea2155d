"""A module tells one story and a function fits a screen.  The limits are checked, so that no god-file grows by accident."""

import ast
from collections import Counter

from tests.support.source_tree import ROOT, SOURCE, in_one_worker, modules, name_of, tree_of

pytestmark = in_one_worker

MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
FOLDER_MODULES_MAX = 13

# Alone they tell a reader nothing; all of them have stood here once.
EXPLAIN_NOTHING = {
    *("bridge", "carry_out", "cast", "core", "embedded", "hurry", "kinds", "parted", "resources", "rest", "sides"),
    *("telling", "told", "turns", "values", "work", "written"),
}

# Where such a name is what users expect: workers work.
WORDS_OF_THE_DOMAIN = {"headrace/client/queue/queue.py: work", "headrace/client/aio/queue.py: work"}

# One file for each API, found by its name: a folder to look things up in, not to read.
ONE_FILE_PER_API = {"headrace/broker/handlers", "headrace/wire/messages"}


def test_a_module_is_short_enough_to_tell_one_story() -> None:
    lines = {name_of(path): len(path.read_text().splitlines()) for path in modules()}

    assert {name: count for name, count in lines.items() if count > MODULE_LINES_MAX} == {}


def test_every_function_fits_a_screen() -> None:
    long = [
        f"{name_of(path)}: {node.name} (line {node.lineno}) has {lines} lines"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert not long


def test_a_module_opens_with_what_it_is_for() -> None:
    assert [name_of(path) for path in modules() if tree_of(path).body and not ast.get_docstring(tree_of(path))] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty_words = {"utils", "util", "helpers", "helper", "manager", "impl", "common", "misc"} | EXPLAIN_NOTHING

    found = [
        name_of(path)
        for path in modules()
        if empty_words & set(path.stem.split("_")) and str(path.parent.relative_to(SOURCE)) not in ONE_FILE_PER_API
    ]

    assert not found


def test_no_class_or_function_has_a_name_that_says_nothing() -> None:
    found = [
        f"{name_of(path)}: {node.name}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.strip("_").lower() in EXPLAIN_NOTHING
        and f"{name_of(path)}: {node.name}" not in WORDS_OF_THE_DOMAIN
    ]

    assert not found


def test_a_folder_fits_one_glance() -> None:
    beside = [path for folder in ("benchmarks", "simulation") for path in (ROOT / folder).rglob("*.py")]
    inside = Counter(path.parent for path in (*modules(), *beside) if path.name != "__init__.py")
    full = {folder: count for folder, count in inside.items() if count > FOLDER_MODULES_MAX}

    assert full.keys() - {SOURCE / name for name in ONE_FILE_PER_API} == set(), full


def test_every_module_of_tests_has_a_name_of_its_own() -> None:
    """pytest imports them by their bare names: of two with one name, it would refuse the second."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))

    assert [name for name, count in names.items() if count > 1] == []
