"""Reads a pattern.  What RE2 refuses is refused here: look-around and back-references, which no linear matcher can do."""

from dataclasses import replace

from headrace.coordination.group.pattern.syntax import (
    ALL_BUT_NEWLINE,
    CONTROL,
    EDGES,
    EVERYTHING,
    PERL,
    POSIX,
    Choice,
    Edge,
    Letters,
    Node,
    Repeat,
    Sequence,
    one,
)
from headrace.declaring import dataclass

DEPTH_MAX = 100
REPEAT_MAX = 1000


class InvalidPattern(ValueError):
    """The text is not a pattern; the message says why."""


@dataclass(frozen=True, slots=True)
class Flags:
    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False

    def changed(self, letters: str) -> "Flags":
        """With flags as in `i-s`: those after the dash are switched off."""
        flags, on = self, True
        for letter in letters:
            match letter:
                case "-" if on:
                    on = False
                case "i":
                    flags = replace(flags, ignore_case=on)
                case "m":
                    flags = replace(flags, multiline=on)
                case "s":
                    flags = replace(flags, dot_all=on)
                case "U":
                    pass  # swaps greedy and lazy, which makes no difference to whether a whole name matches
                case _:
                    raise InvalidPattern(f"invalid flag {letter!r}")
        return flags


class Parser:
    """A recursive descent through the text of one pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._choice(Flags())
        if self._position < len(self._text):
            raise InvalidPattern("unexpected )")
        return node

    # --- structure --------------------------------------------------------------------------------------------------------

    def _choice(self, flags: Flags) -> Node:
        branches: list[Node] = []
        parts: list[Node] = []
        while (letter := self._peek()) not in ("", ")"):
            if letter == "|":
                self._position += 1
                branches.append(Sequence(tuple(parts)))
                parts = []
            elif self._text.startswith("(?", self._position) and (changed := self._bare_flags(flags)) is not None:
                flags = changed
            else:
                parts.append(self._repeated(self._atom(flags)))
        branches.append(Sequence(tuple(parts)))
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _repeated(self, node: Node) -> Node:
        repeats = 0
        while (counts := self._counts()) is not None:
            repeats += 1
            if repeats > 1:
                raise InvalidPattern("invalid nested repetition operator")
            self._accept("?")
            node = Repeat(node, *counts)
        return node

    def _counts(self) -> tuple[int, int | None] | None:
        for operator, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._accept(operator):
                return counts
        return self._braces()

    def _braces(self) -> tuple[int, int | None] | None:
        """`{2}`, `{2,}` or `{2,5}`; other braces stand for themselves."""
        end = self._text.find("}", self._position)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._text[self._position + 1 : end].partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            return None
        least = int(low)
        most = int(high) if high else None if comma else least
        if least > REPEAT_MAX or (most is not None and (most > REPEAT_MAX or most < least)):
            raise InvalidPattern(f"invalid repeat count {self._text[self._position : end + 1]}")
        self._position = end + 1
        return least, most

    def _atom(self, flags: Flags) -> Node:
        match letter := self._take():
            case "(":
                return self._group(flags)
            case "[":
                return self._bracket(flags)
            case ".":
                return EVERYTHING if flags.dot_all else ALL_BUT_NEWLINE
            case "^":
                return Edge.LINE_START if flags.multiline else Edge.TEXT_START
            case "$":
                return Edge.LINE_END if flags.multiline else Edge.TEXT_END
            case "\\":
                return self._escape(flags)
            case "*" | "+" | "?":
                raise InvalidPattern(f"missing argument to repetition operator {letter}")
            case _:
                return one(letter, ignore_case=flags.ignore_case)

    # --- groups -----------------------------------------------------------------------------------------------------------

    def _group(self, flags: Flags) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise InvalidPattern("expression nests too deeply")
        if self._accept("?"):
            flags = self._group_head(flags)
        node = self._choice(flags)
        if not self._accept(")"):
            raise InvalidPattern("missing closing )")
        self._depth -= 1
        return node

    def _group_head(self, flags: Flags) -> Flags:
        if self._text.startswith(("=", "!", "<=", "<!"), self._position):
            raise InvalidPattern("look-around is not supported")
        if self._accept("P<") or self._accept("<"):
            name = self._until(">")
            if not name.isidentifier():
                raise InvalidPattern(f"invalid named capture {name!r}")
            return flags
        return flags.changed(self._until(":"))

    def _bare_flags(self, flags: Flags) -> Flags | None:
        """Flags for the rest of the group, as in `(?i)`."""
        end = self._text.find(")", self._position)
        letters = self._text[self._position + 2 : max(end, 0)]
        if end < 0 or not letters or not all(letter in "imsU-" for letter in letters):
            return None
        self._position = end + 1
        return flags.changed(letters)

    # --- sets -------------------------------------------------------------------------------------------------------------

    def _bracket(self, flags: Flags) -> Letters:
        negated = self._accept("^")
        ranges: list[tuple[str, str]] = []
        sets: list[Letters] = []
        while not (self._peek() == "]" and (ranges or sets)):
            item = self._bracket_item()
            if isinstance(item, Letters):
                sets.append(item)
                continue
            ranges.append((item, self._range_end(item)))
        self._position += 1
        return Letters(tuple(ranges), sets=tuple(sets), negated=negated, ignore_case=flags.ignore_case)

    def _range_end(self, low: str) -> str:
        if self._peek() != "-" or self._text[self._position + 1 : self._position + 2] in ("]", ""):
            return low
        self._position += 1
        high = self._bracket_item()
        if isinstance(high, Letters) or high < low:
            raise InvalidPattern("invalid character class range")
        return high

    def _bracket_item(self) -> str | Letters:
        if self._text.startswith("[:", self._position):
            end = self._text.find(":]", self._position)
            name = self._text[self._position + 2 : max(end, 0)]
            if name.lstrip("^") in POSIX and name.count("^") <= 1:
                self._position = end + 2
                return _maybe_negated(POSIX[name.lstrip("^")], name.startswith("^"))
        letter = self._take()
        if letter == "":
            raise InvalidPattern("missing closing ]")
        if letter != "\\":
            return letter
        escaped = self._escaped()
        if isinstance(escaped, Edge):
            raise InvalidPattern("invalid escape sequence in a character class")
        return escaped

    # --- escapes ----------------------------------------------------------------------------------------------------------

    def _escape(self, flags: Flags) -> Node:
        if self._accept("Q"):
            end = self._text.find("\\E", self._position)
            quoted = self._text[self._position :] if end < 0 else self._text[self._position : end]
            self._position = len(self._text) if end < 0 else end + 2
            return Sequence(tuple(one(letter, ignore_case=flags.ignore_case) for letter in quoted))
        escaped = self._escaped()
        return one(escaped, ignore_case=flags.ignore_case) if isinstance(escaped, str) else escaped

    def _escaped(self) -> str | Letters | Edge:
        letter = self._take()
        if letter.lower() in PERL:
            return _maybe_negated(PERL[letter.lower()], letter.isupper())
        if letter in EDGES:
            return EDGES[letter]
        if letter in CONTROL:
            return CONTROL[letter]
        if letter in ("p", "P"):
            return self._category(letter == "P")
        if letter == "x":
            return self._hexadecimal()
        if letter == "0":
            return self._octal()
        if letter and letter.isascii() and not letter.isalnum():
            return letter
        raise InvalidPattern(f"invalid escape sequence \\{letter}")

    def _category(self, negated: bool) -> Letters:
        name = self._until("}") if self._accept("{") else self._take()
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if name not in CATEGORIES:
            raise InvalidPattern(f"invalid character class range \\p{{{name}}}")
        return Letters(categories=(name,), negated=negated)

    def _hexadecimal(self) -> str:
        digits = self._until("}") if self._accept("{") else self._take() + self._take()
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise InvalidPattern(f"invalid escape sequence \\x{digits}") from None

    def _octal(self) -> str:
        digits = "0"
        while len(digits) < 3 and self._peek() in set("01234567"):
            digits += self._take()
        return chr(int(digits, 8))

    # --- text -------------------------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _take(self) -> str:
        letter = self._peek()
        self._position += len(letter)
        return letter

    def _accept(self, text: str) -> bool:
        if not self._text.startswith(text, self._position):
            return False
        self._position += len(text)
        return True

    def _until(self, end: str) -> str:
        found = self._text.find(end, self._position)
        if found < 0:
            raise InvalidPattern(f"missing {end}")
        taken = self._text[self._position : found]
        self._position = found + len(end)
        return taken


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _maybe_negated(letters: Letters, negated: bool) -> Letters:
    return replace(letters, negated=not letters.negated) if negated else letters


_MINOR_CATEGORIES = {"L": "ultmo", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp", "C": "cfos"}
CATEGORIES = frozenset(major + minor for major, minors in _MINOR_CATEGORIES.items() for minor in ("", *minors))
