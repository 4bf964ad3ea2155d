"""What the commands print: tables for people, JSON for scripts.

Results go to standard output and nothing else does; remarks go to standard error, so that a pipe carries only data.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table.  Columns of whole numbers stand to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    listed = [list(row) for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(columns):
        numeric = bool(listed) and all(isinstance(row[position], int) for row in listed)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        table.add_row(*(Text(cell_text(value)) for value in row))
    # Into a pipe a table is as wide as its content: a cut line is of no use to grep.
    width = None if sys.stdout.isatty() else 1000
    Console(width=width, highlight=False).print(table)


def cell_text(value: object) -> str:
    """How a value is written in a table."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list() | tuple() | set() | frozenset():
            return ", ".join(str(item) for item in value)
        case _:
            return str(value)


def show_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def remark(sentence: str) -> None:
    """Tell the person something that is not part of the result."""
    print(sentence, file=sys.stderr, flush=True)


def counted(count: int, what: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed; a script says --yes instead."""
    import typer

    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{question} Pass --yes to skip the confirmation.")
    typer.confirm(question, abort=True)


def iso_time(timestamp_ms: int) -> str:
    """A record's time as people read it, in UTC."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
