"""The site as a whole: every page can be reached, every name is explained, every command named in passing is one."""

import re
import shlex
from typing import Any

import pytest
import typer
import typer.main

from headrace.cli.main import app
from tests.support.pages import DOCS, FENCED, ROOT, all_pages

GUIDES = DOCS / "guides"


def test_every_guide_is_in_the_navigation_and_the_list() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    listed = (GUIDES / "index.md").read_text()

    for page in GUIDES.glob("*.md"):
        assert f"guides/{page.name}" in navigation
        assert page.name == "index.md" or f"({page.name})" in listed


def test_every_public_name_is_in_the_reference() -> None:
    import headrace

    reference = (GUIDES / "reference.md").read_text()
    modules = set(re.findall(r"^::: (headrace[\w.]+)", reference, re.MULTILINE))
    for name in headrace.__all__:
        home = headrace._HOMES[name]
        if home.startswith("headrace.client"):
            assert home in modules or f"{home}.{name}" in modules or name in ("Delivery",), name


def commands_in_passing() -> list[str]:
    """Those in the middle of a sentence or a table, with arguments; those in blocks are run."""
    sentences = [FENCED.sub("", page.read_text()) for page in all_pages()]
    return sorted({found for text in sentences for found in re.findall(r"`headrace ([a-z][^`]* [^`]+)`", text)})


@pytest.mark.parametrize("line", commands_in_passing())
def test_every_command_named_in_passing_is_one_the_program_takes(line: str) -> None:
    command: Any = typer.main.get_command(app)
    arguments, context, name = shlex.split(line), None, "headrace"
    while hasattr(command, "get_command") and arguments:
        context = typer.Context(command, info_name=name, parent=context)
        name = arguments.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command = found

    if arguments:
        # Parses every option and every value, and runs nothing.
        command.make_context(name, arguments, parent=context)
