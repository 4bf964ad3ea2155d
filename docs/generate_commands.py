"""The manual of the command line, from the commands themselves."""

import inspect
import re
from typing import Any

import typer
import typer.main

from headrace.cli.main import COMMANDS, app

OPENING = """# The command line

`headrace --help` and `headrace COMMAND --help` show the same. All commands but `serve` and `log` are clients over the
wire: they take `--bootstrap HOST:PORT` (or `HEADRACE_BOOTSTRAP`; the default is `127.0.0.1:9092`), `--profile NAME` (or
`HEADRACE_PROFILE`, see [security](security.md)), and `--property NAME=VALUE` for any property of librdkafka. Results go to standard output, remarks to standard error. Exit
codes: 0 success, 1 failure, 2 usage error. `headrace --install-completion` installs shell completion for
commands, options and topic names.
"""


def commands_page() -> str:
    """Every command with its arguments and options."""
    root: Any = typer.main.get_command(app)
    context = typer.Context(root, info_name="headrace")
    parts = [OPENING]
    for name in COMMANDS:
        command = root.get_command(context, name)
        parts.append(_section(f"headrace {name}", command, "##"))
        for inner, subcommand in sorted(getattr(command, "commands", {}).items()):
            parts.append(_section(f"headrace {name} {inner}", subcommand, "###"))
    return "\n".join(parts)


def _section(title: str, command: Any, level: str) -> str:
    lines = [f"{level} {title}", "", *_prose(_plain(command.help or "")), ""]
    if command.epilog:
        lines += [_plain(command.epilog), ""]
    rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
    if rows and not hasattr(command, "commands"):
        lines += ["| option | what it does |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """What is bold on a terminal is code on a page."""
    return re.sub(r"\[/?bold\]", "`", text)


def _prose(text: str) -> list[str]:
    """Paragraphs as they are; indented lines, which are examples, as code."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith("  "):
            if lines and lines[-1] == "```":
                lines = lines[:-1]
            else:
                lines += ["", "```sh"]
            lines += [*(line.strip() for line in paragraph.splitlines()), "```"]
        else:
            lines += ([""] if lines else []) + paragraph.splitlines()
    return lines


def _row(parameter: Any) -> str:
    words = [*parameter.opts, *parameter.secondary_opts]
    if parameter.param_type_name == "argument":
        name = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        takes_value = not getattr(parameter, "is_flag", False)
        name = ", ".join(f"`{word}`" for word in words) + (f" {parameter.metavar or 'VALUE'}" if takes_value else "")
    return f"| {name} | {(getattr(parameter, 'help', '') or '').replace('|', chr(92) + '|')} |"
