"""Principals: who somebody is, as `User:ann` or `Group:admins`.

Names are compared code point by code point and never normalised: two names that look alike are two names.  What cannot be seen
(control characters, line ends, characters that only steer the direction or joining of others) is in no principal's name.
Whatever else a name holds, `shown` prints it so that it cannot end its line, its quotes or its field, nor pass for another name.
"""

import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Final, NamedTuple

USER: Final = "User"
GROUP: Final = "Group"
KINDS: Final = (USER, GROUP)
NAME_CHARACTERS_MAX: Final = 1024

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9._@=,/+*-]+")


class PrincipalError(ValueError):
    """A text names no principal; the sentence says why."""


class Principal(NamedTuple):
    """A kind and a name.  `str` gives Kafka's form, for rules and the wire; print `shown`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def shown(self) -> str:
        """For people: the bare form when it is plain ASCII, else the name in quotes with everything unusual escaped."""
        return f"{self.kind}:{self.name if _PLAIN.fullmatch(self.name) else json.dumps(self.name)}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
EVERYBODY: Final = Principal(USER, "*")


def user(name: str) -> Principal:
    """The user of this name; raises PrincipalError when it can be nobody's."""
    return Principal(USER, checked_name(name))


def group(name: str) -> Principal:
    return Principal(GROUP, checked_name(name))


def parse_principal(text: str) -> Principal:
    """`User:ann`; all after the first colon is the name.  Raises PrincipalError."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise PrincipalError(f"{json.dumps(text)} is not a principal; write {USER}:NAME or {GROUP}:NAME")
    if kind not in KINDS:
        raise PrincipalError(f"{json.dumps(kind)} is not a kind of principal; there are {' and '.join(KINDS)}")
    return Principal(kind, checked_name(name))


def parse_super_users(text: str) -> frozenset[Principal]:
    """Kafka's `super.users`: principals between semicolons, as names of certificates hold commas."""
    return frozenset(parse_principal(item) for item in map(str.strip, text.split(";")) if item)


def checked_name(name: str) -> str:
    if not name:
        raise PrincipalError("a principal has no empty name")
    if len(name) > NAME_CHARACTERS_MAX:
        raise PrincipalError(f"a principal's name has at most {NAME_CHARACTERS_MAX} characters, this one has {len(name)}")
    for character in name:
        if unicodedata.category(character) in _UNSEEN:
            raise PrincipalError(f"U+{ord(character):04X}, which cannot be seen, is in no principal's name")
    return name


class Subject:
    """Somebody who asks: a principal, the groups it is in, and the address it asks from.  One per connection, equal by value."""

    __slots__ = ("_hash", "address", "groups", "principal")

    def __init__(self, principal: Principal = ANONYMOUS, groups: Iterable[Principal] = (), address: str = "") -> None:
        self.principal = principal
        self.groups = tuple(groups)
        self.address = address
        # Asked for with every decision, so it is made once.
        self._hash = hash((principal, self.groups, address))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Subject):
            return NotImplemented
        return (self.principal, self.groups, self.address) == (other.principal, other.groups, other.address)

    def __repr__(self) -> str:
        return f"Subject({self.principal.shown}, groups=[{', '.join(each.shown for each in self.groups)}], {self.address!r})"
