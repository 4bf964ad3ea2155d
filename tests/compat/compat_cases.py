"""What every client must be able to send and get back, whoever wrote it: one list for all of them."""

import random
from dataclasses import dataclass

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MEBIBYTE = 1 << 20
# Room for a message of a mebibyte with its key, headers and the batch around it.
LARGE_TOPIC_BYTES = 2 * MEBIBYTE


@dataclass(frozen=True)
class Sent:
    """A record as it was sent, and as it must come back."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def mebibyte_of_noise() -> bytes:
    """Bytes that no codec makes smaller, the same ones in every run."""
    return random.Random(2026).randbytes(MEBIBYTE)


SHAPES = (
    Sent(b"key", b"value"),
    Sent(None, b"no key"),
    Sent(b"tombstone", None),
    Sent(b"empty value", b""),
    Sent(b"", b"empty key"),
    Sent(b"one byte", b"x"),
    Sent(b"headers", b"value", (("trace", b"1234"), ("empty", b""), ("twice", b"first"), ("twice", b"second"))),
    Sent("schlüssel-鍵".encode(), "wert-値-🌊".encode(), (("überschrift-題", "größe".encode()),)),
    Sent(b"\x00\xff\xfe", bytes(range(256))),
)
"""Keys, values and headers of every shape.  A header without a value is apart: not every client can send one."""

WITH_NULL_HEADER = Sent(b"null header", b"value", (("nothing", None),))


NOTHING = Sent(None, None)
"""Neither key nor value.  kafka-python and aiokafka refuse to send it."""


def records() -> tuple[Sent, ...]:
    """All shapes, and a message of a mebibyte among them so that small ones come after it."""
    return (*SHAPES[:5], Sent(b"one mebibyte", mebibyte_of_noise()), *SHAPES[5:])


# Times for the tests that seek: a minute apart, far enough back that no broker takes them for the future.
TIMES_MS = tuple(1_700_000_000_000 + minute * 60_000 for minute in range(5))
