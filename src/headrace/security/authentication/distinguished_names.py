"""The subject of a certificate as text: RFC 2253 as Java's X500Principal prints it, which Kafka's mapping rules are written for.

The most specific part comes first.  The nine types that RFC 2253 names have keywords; any other is its number with the value's
DER in hex.  What separates parts is escaped, so that a value cannot pass for several.
"""

from collections.abc import Iterator
from typing import Final

from cryptography import x509

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_SPACES: Final = " \r"

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_IDENTIFIER: Final = 0x06
# PrintableString, UTF8String, TeletexString, IA5String, GeneralString, BMPString, UniversalString: Java takes them all for UTF-8.
_STRINGS: Final = frozenset({0x13, 0x0C, 0x14, 0x16, 0x1B, 0x1E, 0x1C})


class MalformedName(ValueError):
    """The bytes are no name of a certificate."""


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate, given in DER as the TLS connection has it.  Raises ValueError when it cannot be read."""
    return printed(x509.load_der_x509_certificate(certificate).subject.public_bytes())


def printed(name: bytes) -> str:
    """A Name in DER as text."""
    tag, content, rest = _element(name)
    if tag != _SEQUENCE or rest:
        raise MalformedName("a name is a sequence")
    return ",".join(reversed([_relative(part) for part in _elements(content, _SET)]))


def _relative(attributes: bytes) -> str:
    return "+".join(_attribute(content) for content in _elements(attributes, _SEQUENCE))


def _attribute(content: bytes) -> str:
    tag, identifier, value = _element(content)
    if tag != _OBJECT_IDENTIFIER:
        raise MalformedName("an attribute begins with its type")
    number = _dotted(identifier)
    keyword = KEYWORDS.get(number)
    tag, text, rest = _element(value)
    if rest:
        raise MalformedName("an attribute has one value")
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or number}=#{value.hex()}"
    return f"{keyword}={_escaped(text.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    inner = text.strip(_SPACES)
    lead = len(text) - len(text.lstrip(_SPACES))
    # All of an empty or blank value is leading.
    before, after = text[:lead], text[lead + len(inner) :]
    middle = "".join("\\" + each if each in _ESCAPED else "\\00" if each == "\0" else each for each in inner)
    return "".join("\\" + each for each in before) + middle + "".join("\\" + each for each in after)


def _dotted(identifier: bytes) -> str:
    arcs, arc = [], 0
    for byte in identifier:
        arc = arc << 7 | byte & 0x7F
        if byte < 0x80:
            arcs.append(arc)
            arc = 0
    if not arcs or identifier[-1] >= 0x80:
        raise MalformedName("a type is a whole number of arcs")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _elements(content: bytes, wanted: int) -> Iterator[bytes]:
    """The contents of elements of one type, one after the other."""
    while content:
        tag, inner, content = _element(content)
        if tag != wanted:
            raise MalformedName(f"expected an element of type {wanted:#x}, found {tag:#x}")
        yield inner


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """The first element: its tag, its content, and what follows it."""
    if len(data) < 2:
        raise MalformedName("an element is cut off")
    tag, length, at = data[0], data[1], 2
    if length >= 0x80:
        count = length & 0x7F
        length, at = int.from_bytes(data[2 : 2 + count], "big"), 2 + count
    if at + length > len(data):
        raise MalformedName("an element is cut off")
    return tag, data[at : at + length], data[at + length :]
