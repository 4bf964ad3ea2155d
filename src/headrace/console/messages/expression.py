"""A small language to pick records: `value.total > 10 and (key = "ann" or header.source contains web)`.

Fields are `key`, `value` with a path into JSON (`value.items[0].price`), `header.NAME`, `partition`, `offset` and `timestamp`.
A comparison with something that is not there is false; the word `not` before it is then true.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from headrace.gateway.serving.problems import Problem, bad_request

Facts = Mapping[str, Any]
Test = Callable[[Facts], bool]
CHARACTERS_MAX: Final = 1000
DEEP_MAX: Final = 50
_TOKEN: Final = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[()]|!=|>=|<=|=|>|<|[^\s()=<>!"']+)""")
_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
OPERATORS: Final = ("=", "!=", *_ORDER, "contains", "exists")
_MISSING: Final = object()


def read_expression(text: str) -> Test:
    """What an expression asks of a record.  Raises a Problem that says where it went wrong."""
    if len(text) > CHARACTERS_MAX:
        raise _wrong(f"it has more than {CHARACTERS_MAX} characters")
    tokens, at = [], 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _wrong(f"{text[at:].strip()[:20]!r} cannot be read")
        tokens.append(found[1])
        at = found.end()
    reader = _Reader(tokens)
    test = reader.either(0)
    if reader.left:
        raise _wrong(f"{reader.left[0]!r} is not expected; join conditions with and, or")
    return test


class _Reader:
    """From left to right; `or` binds less than `and`, and that less than `not`."""

    def __init__(self, tokens: list[str]) -> None:
        self.left = tokens

    def either(self, deep: int) -> Test:
        tests = [self._both(deep)]
        while self._take("or"):
            tests.append(self._both(deep))
        return tests[0] if len(tests) == 1 else lambda facts: any(test(facts) for test in tests)

    def _both(self, deep: int) -> Test:
        tests = [self._one(deep)]
        while self._take("and"):
            tests.append(self._one(deep))
        return tests[0] if len(tests) == 1 else lambda facts: all(test(facts) for test in tests)

    def _one(self, deep: int) -> Test:
        if deep > DEEP_MAX:
            raise _wrong("it is nested too deeply")
        if self._take("not"):
            test = self._one(deep + 1)
            return lambda facts: not test(facts)
        if self._take("("):
            test = self.either(deep + 1)
            if not self._take(")"):
                raise _wrong("a ) is missing")
            return test
        return self._comparison()

    def _comparison(self) -> Test:
        field = self._next("a field, such as key or value.total")
        path = _path(field)
        sign = self._next(f"one of {', '.join(OPERATORS)} after {field}")
        if sign == "exists":
            return lambda facts: _at(facts, path) is not _MISSING
        if sign not in OPERATORS:
            raise _wrong(f"{sign!r} is none of {', '.join(OPERATORS)}")
        wanted = _literal(self._next(f"something to compare {field} with"))
        return lambda facts: _holds(_at(facts, path), sign, wanted)

    def _take(self, word: str) -> bool:
        if self.left and self.left[0].lower() == word:
            self.left = self.left[1:]
            return True
        return False

    def _next(self, wanted: str) -> str:
        if not self.left:
            raise _wrong(f"it ends where there should be {wanted}")
        found, self.left = self.left[0], self.left[1:]
        return found


def _path(field: str) -> list[str]:
    first, *rest = re.split(r"\.|\[(\d+)\]", field) if not field.startswith("header.") else ["header", field[7:]]
    if first not in ("key", "value", "header", "partition", "offset", "timestamp"):
        raise _wrong(f"{field!r} is no field; there are key, value, value.NAME, header.NAME, partition, offset and timestamp")
    return [first, *(part for part in rest if part)]


def _at(facts: Facts, path: list[str]) -> Any:
    value: Any = facts
    for part in path:
        if isinstance(value, Mapping):
            value = value.get(part, _MISSING)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return _MISSING
    return value


def _literal(token: str) -> Any:
    if token[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    match token.lower():
        case "true":
            return True
        case "false":
            return False
        case "null":
            return None
    try:
        return int(token)
    except ValueError:
        pass
    try:
        return float(token)
    except ValueError:
        return token


def _holds(found: Any, sign: str, wanted: Any) -> bool:
    if found is _MISSING:
        return False
    match sign:
        case "=":
            return bool(found == wanted) or (found is not None and str(found) == str(wanted))
        case "!=":
            return not _holds(found, "=", wanted)
        case "contains":
            return (isinstance(found, list) and wanted in found) or str(wanted).lower() in _text(found).lower()
    try:
        return bool(_ORDER[sign](found, wanted))
    except TypeError:
        return False


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value, default=str).decode()


def _wrong(why: str) -> Problem:
    return bad_request(f"The filter cannot be understood: {why}.", 'Write, say, value.total > 10 and key = "ann".')
