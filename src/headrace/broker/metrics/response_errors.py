"""The errors that a response tells of, wherever in it they are: for the whole request, a topic, a partition, a group.

Where a response's class has its `error_code` fields is found out once.  Records go another way: Produce and Fetch count by
themselves, where they decide.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

Find = Callable[[Any], Iterator[int]]

ERROR_CODE = "error_code"


def error_codes(response: Any) -> Iterator[int]:
    """Every code that is not zero."""
    shape: type = type(response)
    return _finder(shape)(response)


@cache
def _finder(message: type) -> Find:
    hints = get_type_hints(message)
    names = [field.name for field in fields(message)]
    has_own = ERROR_CODE in names
    below = [(name, _finder(part)) for name in names if (part := _message_in(hints[name])) is not None and _has_errors(part)]
    if has_own and not below:
        return _find_own

    def find(response: Any) -> Iterator[int]:
        if has_own and (code := getattr(response, ERROR_CODE)):
            yield code
        for name, find_in in below:
            value = getattr(response, name)
            if isinstance(value, tuple | list):
                if find_in is _find_own:  # there may be ten thousand, and a generator for each would cost more than the look
                    yield from [code for each in value if (code := each.error_code)]
                    continue
                for each in value:
                    yield from find_in(each)
            elif value is not None:
                yield from find_in(value)

    return find


def _find_own(response: Any) -> Iterator[int]:
    """Of a message whose only error is its own."""
    if code := response.error_code:
        yield code


@cache
def _has_errors(message: type) -> bool:
    hints = get_type_hints(message)
    return ERROR_CODE in hints or any(
        (part := _message_in(hints[field.name])) is not None and _has_errors(part) for field in fields(message)
    )


def _message_in(hint: Any) -> type | None:
    """The message that a field holds, or holds several of."""
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    return next((found for part in get_args(hint) if (found := _message_in(part)) is not None), None)
