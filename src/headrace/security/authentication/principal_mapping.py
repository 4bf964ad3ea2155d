"""`ssl.principal.mapping.rules`: from a certificate's name to a user's, by Kafka's rules.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole name gives the user's name: its replacement, in lower (L) or upper (U) case.
DEFAULT is the name as it is.  A name that no rule takes is nobody's.  Where Python's expressions differ from Java's a rule is
refused at the start, or (`\\w`, `(?<name>…)`, `$1`, `${name}`) read as Java reads it.
"""

import re
from collections.abc import Callable
from typing import Final

from headrace.declaring import dataclass

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)", re.DOTALL)
_PARSER: Final = re.compile(_RULE, re.DOTALL)
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}


class MappingError(ValueError):
    """A rule cannot be read; the sentence says which and why."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, what to put in its place, and a case.  A number stands for a group, a text for itself."""

    pattern: re.Pattern[str]
    replacement: tuple[str | int, ...]
    case: str

    def apply(self, name: str) -> str | None:
        if not self.pattern.fullmatch(name):
            return None
        # As Java's replaceAll: a pattern that also matches nothing is replaced once more at the end.
        return _CASES[self.case](self.pattern.sub(self._replaced, name))

    def _replaced(self, match: re.Match[str]) -> str:
        return "".join((match[part] or "") if isinstance(part, int) else part for part in self.replacement)


class PrincipalMapping:
    """The rules, in order.  None is DEFAULT."""

    def __init__(self, text: str = "DEFAULT") -> None:
        self._rules = [_parsed(match[1]) for match in _SPLITTER.finditer(text.strip()) if match[1]]

    def name_of(self, distinguished_name: str) -> str | None:
        """The user's name; None when no rule takes it."""
        for rule in self._rules:
            name = distinguished_name if rule is None else rule.apply(distinguished_name)
            if name is not None:
                return name
        return None


def _parsed(text: str) -> Rule | None:
    match = _PARSER.match(text)
    assert match is not None, "the last alternative matches anything"
    if match.end() != len(text):
        raise MappingError(f"{text!r} is not a rule; write DEFAULT or RULE:pattern/replacement/[LU]")
    if match[1]:
        return None
    try:
        # Java's \w, \d and \s are those of ASCII.
        pattern = re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", match[2]), re.ASCII)
    except re.error as error:
        raise MappingError(f"the pattern {match[2]!r} cannot be read: {error}") from None
    return Rule(pattern, tuple(_replacement(match[3], pattern)), match[4])


def _replacement(text: str, pattern: re.Pattern[str]) -> list[str | int]:
    parts: list[str | int] = []
    rest = text
    while rest:
        if rest[0] == "\\":
            if len(rest) == 1:
                raise MappingError(f"the replacement {text!r} ends with a backslash that escapes nothing")
            parts.append(rest[1])
            rest = rest[2:]
        elif rest[0] == "$":
            part, length = _reference(rest, text, pattern)
            parts.append(part)
            rest = rest[length:]
        else:
            parts.append(rest[0])
            rest = rest[1:]
    return parts


def _reference(rest: str, text: str, pattern: re.Pattern[str]) -> tuple[str | int, int]:
    """What `$…` stands for, and how long it is.  `$12` is group 1 and a 2 where there are fewer than 12 groups."""
    if named := re.match(r"\$\{([A-Za-z][A-Za-z0-9]*)\}", rest):
        if named[1] not in pattern.groupindex:
            raise MappingError(f"the replacement {text!r} names a group {named[1]} that the pattern does not have")
        return pattern.groupindex[named[1]], named.end()
    digits = re.match(r"\$([0-9]+)", rest)
    if digits is None:
        raise MappingError(f"the replacement {text!r} has a $ without a group; write \\$ for the sign itself")
    length = 1
    while length < len(digits[1]) and int(digits[1][: length + 1]) <= pattern.groups:
        length += 1
    number = int(digits[1][:length])
    if number <= pattern.groups:
        return number, length + 1
    if not pattern.groups:
        raise MappingError(f"the replacement {text!r} has ${number}, and the pattern has no groups")
    return f"${digits[1]}", digits.end()
