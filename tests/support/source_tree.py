"""The product's modules, each parsed once however many tests look at it."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

# Of a test: one of the workers parses all modules, instead of each.
in_one_worker = pytest.mark.xdist_group("source-tree")


@cache
def modules() -> tuple[Path, ...]:
    return tuple(sorted(SOURCE.rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def name_of(path: Path) -> str:
    """As in messages: where it lies in the source."""
    return str(path.relative_to(SOURCE))
