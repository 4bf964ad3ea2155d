"""SASLprep (RFC 4013): what user names and passwords are turned into by some clients, and left alone by others.

Java's client and librdkafka send them as they are; others prepare them first.  So a name or a password that preparation would
change would let its owner in with one client and not with another: such are refused where they are set.
"""

import stringprep
import unicodedata
from collections.abc import Callable
from typing import Final

_PROHIBITED: Final[tuple[Callable[[str], bool], ...]] = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)


def prepared(text: str) -> str:
    """The text after SASLprep; raises ValueError with a sentence when it has characters that are not allowed."""
    mapped = "".join(" " if stringprep.in_table_c12(each) else each for each in text if not stringprep.in_table_b1(each))
    result = unicodedata.normalize("NFKC", mapped)
    for each in result:
        if any(prohibits(each) for prohibits in _PROHIBITED):
            raise ValueError(f"U+{ord(each):04X} is not allowed in it")
    _check_direction(result)
    return result


def check_prepared(text: str, what: str) -> None:
    """Raises ValueError unless every client would send the text as it is."""
    try:
        changed = prepared(text) != text
    except ValueError as error:
        raise ValueError(f"the {what} cannot be used: {error}") from None
    if changed:
        raise ValueError(f"the {what} has characters that some clients would change on their way: use another form of them")


def _check_direction(text: str) -> None:
    if any(map(stringprep.in_table_d1, text)):
        if any(map(stringprep.in_table_d2, text)):
            raise ValueError("it has letters of both directions")
        if not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])):
            raise ValueError("text from right to left begins and ends with a letter of that direction")
