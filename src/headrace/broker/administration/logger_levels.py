"""The levels of the broker's loggers, read and changed while it runs (KIP-412).

They are this process's own: nothing is written down, and a restart begins with the levels that it was started with.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakMethod

from headrace.model.errors import ErrorCode, RequestError

logger = logging.getLogger(__name__)

ROOT = "root"
OURS = "headrace"
# Kafka's names for Python's levels; Python has nothing below DEBUG, but room for it.
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}


_told: "list[WeakMethod[Callable[[], Any]]]" = []


def tell_changes(method: Callable[[], Any]) -> None:
    """Call this method after each change, for as long as its object lives."""
    _told.append(WeakMethod(method))


def _tell() -> None:
    _told[:] = [each for each in _told if each() is not None]
    for each in _told:
        if (method := each()) is not None:
            method()


def levels() -> Iterator[tuple[str, str]]:
    """Every logger of ours with the level that counts for it, and the root's, which counts for those that have none."""
    names = {OURS, *(name for name in logging.root.manager.loggerDict if name.startswith(f"{OURS}."))}
    yield ROOT, _name_of(logging.root.getEffectiveLevel())
    for name in sorted(names):
        yield name, _name_of(logging.getLogger(name).getEffectiveLevel())


def require_level(name: str, level: str | None) -> None:
    """Raise RequestError unless there is such a logger and such a level."""
    _require_logger(name)
    if level not in LEVELS:
        raise RequestError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level}; the log levels are {', '.join(sorted(LEVELS))}.",
        )


def require_removable(name: str) -> None:
    """Raise RequestError unless the logger can take the level of the one above it."""
    _require_logger(name)
    if name == ROOT:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"The level of the logger {ROOT} cannot be removed: nothing is above it.")


def set_level(name: str, level: str) -> None:
    _logger(name).setLevel(LEVELS[level])
    _tell()
    logger.warning("the log level of %s is now %s", name, level)


def remove_level(name: str) -> None:
    _logger(name).setLevel(logging.NOTSET)
    _tell()
    logger.warning("the log level of %s is now that of the logger above it", name)


def _require_logger(name: str) -> None:
    if name not in (known for known, _ in levels()):
        raise RequestError(ErrorCode.INVALID_CONFIG, f"There is no logger {name}.")


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _name_of(number: int) -> str:
    """The name of the level, or of the nearest above it: what is logged at that one still comes."""
    return next((name for name, level in reversed(LEVELS.items()) if level >= number), "FATAL")
