"""Payloads that nobody is shown here, by rule: a topic, all topics of a prefix, or a part of JSON values.

This is a matter of the screen: who may read the topic may read it with a client.  Always: on a console with such rules, no path
over HTTP shows what they hide.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from headrace.client.errors import InvalidArgument
from headrace.model.names import DELAYED, GATEWAY, SCHEDULES

HIDDEN: Final = "•••"
# Records of any topic wait here, or are kept here to be sent.
HOLDS_RECORDS_OF_OTHERS: Final = frozenset({DELAYED, SCHEDULES, GATEWAY})


@dataclass(frozen=True, slots=True)
class Rule:
    """`pointer` is of the part that is hidden; None hides keys, values and headers whole."""

    topics: str
    pointer: tuple[str, ...] | None


def read_rule(text: str) -> Rule:
    """NAME, NAME* or NAME:/json/pointer.  Raises InvalidArgument."""
    topics, colon, pointer = text.partition(":")
    if not topics or (colon and not pointer.startswith("/")):
        raise InvalidArgument(f"{text!r} is no rule for hiding: write TOPIC, PREFIX* or TOPIC:/field/inside")
    parts = tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    return Rule(topics, parts if colon else None)


class Hiding:
    """All rules of a console."""

    def __init__(self, rules: tuple[str, ...]) -> None:
        self._rules = [read_rule(each) for each in rules]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def concerns(self, topic: str) -> bool:
        """Whether anything of a topic is hidden."""
        return self.hides_all(topic) or bool(self._of(topic))

    def hides_all(self, topic: str) -> bool:
        if topic in HOLDS_RECORDS_OF_OTHERS:
            return bool(self._rules)
        return any(rule.pointer is None for rule in self._of(topic))

    def parts(self, topic: str) -> list[tuple[str, ...]]:
        """Pointers into values."""
        return [rule.pointer for rule in self._of(topic) if rule.pointer is not None]

    def _of(self, topic: str) -> list[Rule]:
        """A dead-letter topic has what its origin has."""
        names = {topic, topic.removesuffix(".dead-letter")}
        return [rule for rule in self._rules if any(fnmatchcase(name, rule.topics) for name in names)]


def without(value: Any, pointer: tuple[str, ...]) -> Any:
    """A JSON value in which a part is not shown; `*` is every element of a list, or every field."""
    if not pointer:
        return HIDDEN
    name, rest = pointer[0], pointer[1:]
    if isinstance(value, dict):
        return {key: without(each, rest) if name in ("*", key) else each for key, each in value.items()}
    if isinstance(value, list):
        return [without(each, rest) if name in ("*", str(index)) else each for index, each in enumerate(value)]
    return value
