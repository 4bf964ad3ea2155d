"""The parts of a parsed pattern."""

import unicodedata
from enum import Enum, auto

from headrace.declaring import dataclass


@dataclass(frozen=True, slots=True)
class Letters:
    """A set of characters: ranges, Unicode categories by their first letters, other sets; or all but those."""

    ranges: tuple[tuple[str, str], ...] = ()
    categories: tuple[str, ...] = ()
    sets: "tuple[Letters, ...]" = ()
    negated: bool = False
    ignore_case: bool = False

    def holds(self, letter: str) -> bool:
        forms = {letter, letter.lower(), letter.upper()} if self.ignore_case else {letter}
        return any(self._lists(form) for form in forms) != self.negated

    def _lists(self, letter: str) -> bool:
        return (
            any(low <= letter <= high for low, high in self.ranges)
            or any(unicodedata.category(letter).startswith(category) for category in self.categories)
            or any(part.holds(letter) for part in self.sets)
        )


class Edge(Enum):
    """A condition on the place between two characters."""

    TEXT_START = auto()
    TEXT_END = auto()
    LINE_START = auto()
    LINE_END = auto()
    WORD_EDGE = auto()
    NO_WORD_EDGE = auto()

    def holds(self, before: str | None, after: str | None) -> bool:
        """Whether it holds between these two; None is the end of the text."""
        match self:
            case Edge.TEXT_START:
                return before is None
            case Edge.TEXT_END:
                return after is None
            case Edge.LINE_START:
                return before is None or before == "\n"
            case Edge.LINE_END:
                return after is None or after == "\n"
            case Edge.WORD_EDGE:
                return _is_word(before) != _is_word(after)
            case Edge.NO_WORD_EDGE:
                return _is_word(before) == _is_word(after)


def _is_word(letter: str | None) -> bool:
    return letter is not None and WORD.holds(letter)


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` is None where there is no limit."""

    part: "Node"
    least: int
    most: int | None


Node = Letters | Edge | Sequence | Choice | Repeat


def one(letter: str, *, ignore_case: bool = False) -> Letters:
    return Letters(((letter, letter),), ignore_case=ignore_case)


DIGIT = Letters((("0", "9"),))
SPACE = Letters((("\t", "\n"), ("\f", "\r"), (" ", " ")))
WORD = Letters((("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")))
EVERYTHING = Letters(negated=True)
ALL_BUT_NEWLINE = Letters((("\n", "\n"),), negated=True)

PERL = {"d": DIGIT, "s": SPACE, "w": WORD}
POSIX = {
    "alnum": Letters((("0", "9"), ("A", "Z"), ("a", "z"))),
    "alpha": Letters((("A", "Z"), ("a", "z"))),
    "ascii": Letters((("\0", "\x7f"),)),
    "blank": Letters((("\t", "\t"), (" ", " "))),
    "cntrl": Letters((("\0", "\x1f"), ("\x7f", "\x7f"))),
    "digit": DIGIT,
    "graph": Letters((("!", "~"),)),
    "lower": Letters((("a", "z"),)),
    "print": Letters(((" ", "~"),)),
    "punct": Letters((("!", "/"), (":", "@"), ("[", "`"), ("{", "~"))),
    "space": Letters((("\t", "\r"), (" ", " "))),
    "upper": Letters((("A", "Z"),)),
    "word": WORD,
    "xdigit": Letters((("0", "9"), ("A", "F"), ("a", "f"))),
}
CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
EDGES = {"A": Edge.TEXT_START, "z": Edge.TEXT_END, "b": Edge.WORD_EDGE, "B": Edge.NO_WORD_EDGE}
