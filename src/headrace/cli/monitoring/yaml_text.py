"""Values as YAML, for people to read and change.  Whoever writes only plain values needs no library for it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# What YAML reads as the text that it is, without quotes.
PLAIN = re.compile(r"[A-Za-z/][\w ./()-]*|\d+[smhd]")
NOT_TEXT = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def yaml_text(value: Mapping[str, Any]) -> str:
    """A whole document."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _entry(f"{name}:", inner, deeper="  ")
    else:
        for inner in value:
            yield from _item(inner)


def _entry(opening: str, inner: Any, deeper: str) -> Iterator[str]:
    if _is_branch(inner):
        yield opening
        yield from (deeper + line for line in _lines(inner))
    else:
        yield f"{opening} {_scalar(inner)}"


def _item(inner: Any) -> Iterator[str]:
    if not _is_branch(inner):
        yield f"- {_scalar(inner)}"
        return
    for number, line in enumerate(_lines(inner)):
        yield ("  " if number else "- ") + line


def _is_branch(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return bool(value) and (isinstance(value, Mapping) or is_list)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and PLAIN.fullmatch(value) and not value.endswith(" ") and value.lower() not in NOT_TEXT:
        return value
    if isinstance(value, str) and value.isprintable():
        doubled = value.replace("'", "''")
        return f"'{doubled}'"
    return json.dumps(value)
