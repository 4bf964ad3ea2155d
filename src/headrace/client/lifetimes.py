"""Clients that are open when the process ends, or forks.

Of librdkafka's threads nothing is left in the child of a fork: what is sent there would wait for ever without a word.  And a
process that ends takes with it what its producers have not yet sent.
"""

from __future__ import annotations

import atexit
import os
import weakref
from contextlib import suppress
from typing import Literal, Protocol

from headrace.client.logs import log


class OpenClient(Protocol):
    def at_exit(self) -> None:
        """The process ends.  No thread can be started any more."""

    def after_fork(self) -> None:
        """This is a child of the process that opened it: it is of no use here."""


_open: weakref.WeakSet[OpenClient] = weakref.WeakSet()


def watch(client: OpenClient) -> None:
    _open.add(client)


def _at_exit() -> None:
    _each("at_exit")


def _after_fork() -> None:
    _each("after_fork")


def _each(call: Literal["at_exit", "after_fork"]) -> None:
    """One that fails takes nothing from the others, whose records may still be on their way."""
    for client in _all_open():
        try:
            getattr(client, call)()
        except Exception:
            log.exception("a client could not be let go")


def _all_open() -> list[OpenClient]:
    while True:
        # Another thread may open one at this moment.
        with suppress(RuntimeError):
            return list(_open)


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
