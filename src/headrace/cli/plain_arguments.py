"""Texts, paths and whole numbers of a command line, read without what Typer loads for it.

Typer reads every value by pydantic, also one that was not given: its import takes a fifth of a broker's start, twice as long as
most commands, and 6 MB for as long as the process lives.  Here the plain cases are read; all else is left to Typer, and with
that every error.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

import typer.core

NOT_PLAIN = object()


def read_plain_arguments() -> None:
    """From now on, in this process; an older Typer, which loads nothing for it, is left as it is."""
    for kind in (typer.core.TyperOption, typer.core.TyperArgument):
        changed: Any = kind
        if hasattr(changed, "get_runtime_param"):
            changed.get_runtime_param = _or_plain(changed.get_runtime_param)


def _or_plain(typers: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def get_runtime_param(self: Any) -> Any:
        return PlainValue(self, typers)

    return get_runtime_param


class PlainValue:
    """What Typer asks for the value of one option or argument."""

    def __init__(self, parameter: Any, typers: Callable[[Any], Any]) -> None:
        self._parameter = parameter
        self._typers = typers

    def coerce(self, value: Any, **context: Any) -> Any:
        plain = plain_value(self._parameter, value)
        return self._typers(self._parameter).coerce(value, **context) if plain is NOT_PLAIN else plain


def plain_value(parameter: Any, value: Any) -> Any:
    """What the text says, or NOT_PLAIN; an option that was not given has no value, or none of several."""
    takes_several = parameter.multiple or parameter.nargs == -1
    if value is None:
        return () if takes_several else None
    annotation, about = parameter.type_descriptor.annotation, parameter.type_descriptor.parameter_info
    if about.parser is not None:
        return NOT_PLAIN
    if not takes_several:
        return _plain(annotation, about, value)
    if get_origin(annotation) is not list or not isinstance(value, list | tuple):
        return NOT_PLAIN
    values = [_plain(get_args(annotation)[0], about, each) for each in value]
    return NOT_PLAIN if NOT_PLAIN in values else values


def _plain(annotation: Any, about: Any, value: Any) -> Any:
    if annotation is str:
        return value if isinstance(value, str) else NOT_PLAIN
    if annotation is int:
        return _plain_number(about, value)
    return _plain_path(about, value) if annotation is Path else NOT_PLAIN


def _plain_number(about: Any, value: Any) -> Any:
    if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit():
        number = int(value)
    elif type(value) is int:
        number = value
    else:
        return NOT_PLAIN
    fits = (about.min is None or number >= about.min) and (about.max is None or number <= about.max)
    return number if fits else NOT_PLAIN


def _plain_path(about: Any, value: Any) -> Any:
    """Where nothing is demanded of it, or what there is fulfils it."""
    if about.resolve_path or about.allow_dash or about.path_type is not None or not isinstance(value, str | Path):
        return NOT_PLAIN
    path = Path(value)
    if not path.exists():
        return NOT_PLAIN if about.exists else path
    is_wanted = about.dir_okay if path.is_dir() else about.file_okay
    is_allowed = (not about.readable or os.access(path, os.R_OK)) and (not about.writable or os.access(path, os.W_OK))
    return path if is_wanted and is_allowed else NOT_PLAIN
