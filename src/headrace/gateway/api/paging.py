"""Lists in pages: `limit` things after `after`, in the order of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from headrace.gateway.api.operations import Parameter

Thing = TypeVar("Thing")
LIMIT_MAX: Final = 1000
PAGE: Final = (
    Parameter("limit", "How many to answer at most.", "number", default=100, minimum=1, maximum=LIMIT_MAX),
    Parameter("after", "The `next` of the page before."),
)


def page(things: Iterable[Thing], query: dict[str, Any], name_of: Callable[[Thing], str] = str) -> tuple[list[Thing], str | None]:
    """The things of a page, and after which one the next begins; None when this was the last."""
    after, limit = query["after"], query["limit"]
    left = sorted((each for each in things if after is None or name_of(each) > after), key=name_of)
    return left[:limit], name_of(left[limit - 1]) if len(left) > limit else None
