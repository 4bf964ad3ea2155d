"""The site as a whole: every page can be reached, every name is explained, every command named in passing is one."""

import importlib
import inspect
import re
import shlex
from dataclasses import dataclass
from typing import Any

import pytest
import typer
import typer.main

import headrace
from headrace.cli.main import app
from headrace.testing import Broker
from headrace.testing.faults import Faults
from tests.support.pages import DOCS, FENCED, ROOT, all_pages

GUIDES = DOCS / "guides"
ERRORS = set(headrace.__all__)  # a Raises: section names them as Args: names arguments


def test_every_guide_is_in_the_navigation_and_the_list() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    listed = (GUIDES / "index.md").read_text()

    for page in GUIDES.glob("*.md"):
        assert f"guides/{page.name}" in navigation
        assert page.name == "index.md" or f"({page.name})" in listed


@dataclass(frozen=True)
class Entry:
    """A `:::` of the reference: a module or a class, and what of it is shown."""

    target: str
    options: str

    def shows(self, name: str) -> bool:
        only = re.search(r"members: \[(.*?)\]", self.options)
        hidden = re.findall(r"'!(.*?)'", self.options) or ["^_"]
        return name in only.group(1).split(", ") if only else not any(re.search(pattern, name) for pattern in hidden)

    def classes_and_functions(self) -> list[Any]:
        try:
            module = importlib.import_module(self.target)
        except ImportError:
            home, _, name = self.target.rpartition(".")
            return [getattr(importlib.import_module(home), name)]
        mine = [each for each in vars(module).values() if getattr(each, "__module__", None) == self.target]
        return [each for each in mine if hasattr(each, "__name__") and self.shows(each.__name__)]

    def members(self, owner: type) -> list[Any]:
        shown = [each for name, each in vars(owner).items() if not name.startswith("_") and self.shows(name)]
        return [each for each in shown if isinstance(each, property | classmethod | staticmethod) or inspect.isfunction(each)]


def entries() -> list[Entry]:
    text = (GUIDES / "reference.md").read_text() + "\n"
    return [Entry(*found) for found in re.findall(r"^::: (\S+)\n((?:    .*\n)*)", text, re.MULTILINE)]


def test_every_public_name_is_in_the_reference() -> None:
    shown = {each.__name__ for entry in entries() for each in entry.classes_and_functions()}

    assert set(headrace.__all__) <= shown


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.target)
def test_everything_in_the_reference_says_what_it_does(entry: Entry) -> None:
    for each in entry.classes_and_functions():
        assert inspect.getdoc(each), each
        if inspect.isclass(each) and not only_named(entry):
            assert [member for member in entry.members(each) if not inspect.getdoc(member)] == []


def only_named(entry: Entry) -> bool:
    """Whether it shows some methods of a class that inherits the others from Python's own."""
    return entry.target.endswith(".DeliveryFuture")


@pytest.mark.parametrize(
    "call",
    [
        headrace.Producer,
        headrace.Producer.send,
        headrace.Consumer,
        headrace.Consumer.on_message,
        headrace.Admin,
        headrace.Admin.create_topic,
        headrace.DeadLetters,
        headrace.Backoff,
        headrace.exactly_once,
        Broker,
        Faults.on,
    ],
)
def test_every_argument_is_explained(call: Any) -> None:
    arguments = inspect.signature(call).parameters.keys() - {"self"}

    assert arguments == set(re.findall(r"^ +(\w+): ", inspect.getdoc(call) or "", re.MULTILINE)) - ERRORS


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
