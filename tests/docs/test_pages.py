"""The other pages of the site: what they show to be typed or written into a file is accepted."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

from headrace.cli.main import app
from headrace.cli.serve_settings import read_file
from headrace.model.broker_settings import BrokerConfig

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("decisions/*.md")])
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Who runs the blocks of a page: a new kind of block, or one on another page, has to be given to somebody.
RUN_BY = {
    ("commands.md", "sh"): "here",
    ("index.md", "python"): "test_guides",
    ("index.md", "sh"): "test_guides",
    ("index.md", "text"): "test_guides",
    ("operating.md", ""): "here",
    ("pipelines.md", ""): "here",
    ("pipelines.md", "python"): "tests/spark/test_documentation",
    ("pipelines.md", "toml"): "tests/spark/test_documentation",
    ("settings.md", "toml"): "here",
    ("spark.md", "python"): "tests/spark/test_documentation",
}


def blocks(page: str, language: str) -> list[str]:
    return [code for found, code in BLOCK.findall((DOCS / page).read_text()) if found == language]


def commands() -> list[str]:
    """The part of each line that calls `headrace`, without what comes before it, after it, or from elsewhere."""
    whole = [code.replace("\\\n", " ") for page in PAGES for _, code in BLOCK.findall(page.read_text())]
    lines = [line for code in whole for line in code.splitlines()]
    called = [line.split(" #")[0] for line in lines if re.search(r"(^|\| |=\w+ )headrace [a-z]", line)]
    return sorted({re.split(r" [<>|] ", re.sub(r"^.*?\bheadrace ", "", line))[0].strip() for line in called})


def test_every_block_is_run_by_some_test() -> None:
    found = {
        (page.name, language) for page in PAGES for language, code in BLOCK.findall(page.read_text()) if is_code(language, code)
    }

    assert found == set(RUN_BY)


def is_code(language: str, code: str) -> bool:
    return bool(language) or "headrace " in code


@pytest.mark.parametrize("line", commands())
def test_every_command_shown_is_one_the_program_takes(line: str) -> None:
    command: Any = typer.main.get_command(app)
    arguments, context, name = shlex.split(line), None, "headrace"
    while hasattr(command, "get_command"):
        context = typer.Context(command, info_name=name, parent=context)
        name = arguments.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command = found

    # Parses every option and every value, and runs nothing.
    command.make_context(name, arguments, parent=context)


def test_the_settings_file_shown_is_accepted(tmp_path: Path) -> None:
    for code in blocks("settings.md", "toml"):
        file = tmp_path / "headrace.toml"
        file.write_text(code)

        assert BrokerConfig(read_file(file))["num.partitions"] == 12
