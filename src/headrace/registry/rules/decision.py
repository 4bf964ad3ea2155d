"""What came out of a request: what is to be written, and what is answered once it is."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from headrace.registry.rules.entries import Entry

T = TypeVar("T")


class Decision(NamedTuple, Generic[T]):
    entries: tuple[Entry, ...]
    answer: T
