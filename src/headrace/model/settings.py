"""What a setting is: a name of Kafka's where Kafka has it, a kind, a default, a sentence, and the values it accepts.

Values travel as text (files, environment, wire) and are parsed once; a wrong one is refused with its name and what is right.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from enum import IntEnum
from typing import Any

from headrace.declaring import dataclass

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1

# What Java's trim takes away.
_BLANKS = "".join(map(chr, range(33)))
_WHOLE = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?", re.ASCII)

Value = str | int | float | bool | tuple[str, ...] | None


class Kind(IntEnum):
    """How a value is read.  The numbers are DescribeConfigs' own."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_KIND_NAMES = {
    Kind.BOOLEAN: "true or false",
    Kind.STRING: "a text",
    Kind.INT: "a whole number",
    Kind.SHORT: "a whole number",
    Kind.LONG: "a whole number",
    Kind.DOUBLE: "a number",
    Kind.LIST: "a list",
    Kind.CLASS: "the name of a class",
    Kind.PASSWORD: "a password",
}


class SettingError(ValueError):
    """A setting that does not exist or a value it does not accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting and what it accepts."""

    name: str
    kind: Kind
    default: Value
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    # The broker-wide settings that give a topic setting its default, the strongest first.
    synonyms: tuple[str, ...] = ()
    # Whether a running broker takes a new value without a restart.
    dynamic: bool = False
    # Whether it is taken, kept and shown for the sake of Kafka's tools and files, and changes nothing.
    compatibility: bool = False
    # Whether it is for tests and left out of lists, as Kafka leaves its own out.
    internal: bool = False

    @property
    def description(self) -> str:
        """What people are told about it."""
        return f"Accepted for compatibility; has no effect. {self.doc}" if self.compatibility else self.doc

    def parse(self, text: str) -> Value:
        """The value that the text stands for, if it is one that is accepted."""
        value = self.read(text)
        self._check(value)
        return value

    def read(self, text: str) -> Value:
        """The value that the text stands for, also where it was accepted by an older version with other limits."""
        try:
            return _READERS[self.kind](text.strip(_BLANKS))
        except ValueError:
            raise SettingError(f"{self.name}={text!r} is not {_KIND_NAMES[self.kind]}") from None

    def _check(self, value: Value) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if self.minimum is not None and value < self.minimum:
                raise SettingError(f"{self.name}={value} is below its minimum, {_number(self.minimum)}")
            if self.maximum is not None and value > self.maximum:
                raise SettingError(f"{self.name}={value} is above its maximum, {_number(self.maximum)}")
        if self.choices:
            for item in value if isinstance(value, tuple) else (value,):
                if (text := self.format(item)) not in self.choices:
                    raise SettingError(f"{self.name}={text} is not one of: {', '.join(self.choices)}")

    def format(self, value: Value) -> str | None:
        """The text that stands for a value; None where the setting has none."""
        match value:
            case None:
                return None
            case bool():
                return "true" if value else "false"
            case tuple():
                return ",".join(value)
            case _:
                return str(value)


def _number(limit: float) -> str:
    return str(int(limit)) if float(limit).is_integer() else str(limit)


def _integer(bits: int) -> Callable[[str], int]:
    """Whole numbers as Java reads them: a sign and decimal digits, nothing else."""

    def read(text: str) -> int:
        value = int(text) if _WHOLE.fullmatch(text) else None
        if value is None or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError(text)
        return value

    return read


def _double(text: str) -> float:
    """Numbers as Java reads them, but for those that are none; a suffix says how precise they are."""
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(text)
    return float(text.rstrip("fFdD"))


def _boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError(text)


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


_READERS: dict[Kind, Callable[[str], Value]] = {
    Kind.BOOLEAN: _boolean,
    Kind.STRING: str,
    Kind.INT: _integer(32),
    Kind.SHORT: _integer(16),
    Kind.LONG: _integer(64),
    Kind.DOUBLE: _double,
    Kind.LIST: _items,
    Kind.CLASS: str,
    Kind.PASSWORD: str,
}


def fixed(name: str, kind: Kind, default: Value, doc: str, **limits: Any) -> Setting:
    """One that holds until the broker is started again."""
    return Setting(name=name, kind=kind, default=default, doc=doc, **limits)


def dynamic(name: str, kind: Kind, default: Value, doc: str, **limits: Any) -> Setting:
    """One that can be changed while the broker runs."""
    return Setting(name=name, kind=kind, default=default, doc=doc, dynamic=True, **limits)


class SettingTable:
    """All settings of one kind of thing, by name."""

    def __init__(self, settings: Iterable[Setting]) -> None:
        self.by_name: dict[str, Setting] = {setting.name: setting for setting in settings}

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __getitem__(self, name: str) -> Setting:
        try:
            return self.by_name[name]
        except KeyError:
            near = get_close_matches(name, self.by_name, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError(f"there is no setting {name}{hint}") from None

    def parse(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """Parse every text; the first wrong one raises."""
        return {name: self[name].parse(text) for name, text in texts.items()}
