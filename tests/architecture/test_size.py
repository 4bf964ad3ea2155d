"""A module tells one story and a function fits a screen.  The limits are checked, so that no god-file grows by accident."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
FOLDER_MODULES_MAX = 13

# Alone they tell a reader nothing; all of them have stood here once.
EXPLAIN_NOTHING = {
    *("bridge", "carry_out", "cast", "core", "embedded", "hurry", "kinds", "parted", "resources", "rest", "sides"),
    *("telling", "told", "turns", "values", "work", "written"),
}

# One file for each API, found by its name: a folder to look things up in, not to read.
ONE_FILE_PER_API = {"headrace/broker/handlers", "headrace/wire/messages"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_is_short_enough_to_tell_one_story(path: Path) -> None:
    lines = len(path.read_text().splitlines())

    assert lines <= MODULE_LINES_MAX


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_function_fits_a_screen(path: Path) -> None:
    functions = [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    long = [
        f"{node.name} (line {node.lineno}) has {lines} lines"
        for node in functions
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert not long


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_opens_with_what_it_is_for(path: Path) -> None:
    tree = ast.parse(path.read_text())
    if not tree.body:
        return

    assert ast.get_docstring(tree)


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty_words = {"utils", "util", "helpers", "helper", "manager", "impl", "common", "misc"} | EXPLAIN_NOTHING

    found = [
        str(path.relative_to(SOURCE))
        for path in modules()
        if empty_words & set(path.stem.split("_")) and str(path.parent.relative_to(SOURCE)) not in ONE_FILE_PER_API
    ]

    assert not found


def test_no_class_or_function_has_a_name_that_says_nothing() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {node.name}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.strip("_").lower() in EXPLAIN_NOTHING
    ]

    assert not found


def folders() -> list[Path]:
    return sorted({path.parent for path in modules()})


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(SOURCE)))
def test_a_folder_fits_one_glance(folder: Path) -> None:
    inside = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]

    assert len(inside) <= FOLDER_MODULES_MAX or str(folder.relative_to(SOURCE)) in ONE_FILE_PER_API
