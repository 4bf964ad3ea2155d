"""What may be called back with a record, and what came of the call.

A coroutine or a generator that a function returns has run none of its body yet: to take the return for the end would commit
the record and handle none of it.  So such functions are refused when they are handed in, and where only the call can show it
(a lambda, a wrapper), when the call returns one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial
from inspect import isasyncgenfunction, isawaitable, iscoroutinefunction, isgeneratorfunction

from headrace.client.errors import InvalidArgument

NOT_RUN = (Coroutine, Generator, AsyncGenerator)


class NothingDone(InvalidArgument):
    """A call returned something that nobody runs: the record was not handled."""


def plain_function(argument: str, given: object, takes: str, hint: str = "") -> None:
    """Refuse what is not callable, and what would return before it has done anything."""
    if not callable(given) or _is_any(given, iscoroutinefunction, isgeneratorfunction, isasyncgenfunction):
        what = "" if not callable(given) else f" is {_kind(given)}, which nobody would run, and"
        raise InvalidArgument(
            f"{argument}={given!r}{what} is not accepted; "
            f"accepted: a plain (non-async, non-generator) function that takes {takes}{hint}"
        )


def plain_function_or_none(argument: str, given: object, takes: str) -> None:
    if given is not None:
        plain_function(argument, given, takes)


def async_function(argument: str, given: object, takes: str) -> None:
    """Refuse what is not an async function."""
    if not callable(given) or not _is_any(given, iscoroutinefunction):
        raise InvalidArgument(f"{argument}={given!r} is not accepted; accepted: an async function that takes {takes}")


def refuse_unrun(argument: str, returned: object) -> None:
    """Refuse what a call returned if nobody runs it: then nothing was done."""
    if returned is not None and (isinstance(returned, NOT_RUN) or isawaitable(returned)):
        name = type(returned).__name__
        if isinstance(returned, Coroutine | Generator):
            returned.close()  # or Python would warn of it once more, at a place that says nothing
        raise NothingDone(
            f"{argument} returned a {name}, which nobody runs, so nothing was done with the record; "
            "accepted: a function that has done its work when it returns, or returns a concurrent.futures.Future"
        )


def _is_any(given: Callable[..., object], *tests: Callable[[object], bool]) -> bool:
    """Whether a function, or the `__call__` of an object, passes one of these tests; also behind `functools.partial`."""
    while isinstance(given, partial):
        given = given.func
    return any(test(given) or test(type(given).__call__) for test in tests)


def _kind(given: Callable[..., object]) -> str:
    return "an async function" if _is_any(given, iscoroutinefunction, isasyncgenfunction) else "a generator function"
