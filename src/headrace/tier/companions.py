"""What a segment has besides its batches, as one object: indexes, producers, epochs, aborted transactions, in Kafka's own forms.

A line of JSON with the names, sizes and checksums of the sections, then the sections."""

import json
from collections.abc import Mapping
from typing import Final

from crc32c import crc32c

OFFSETS: Final = "index"
TIMES: Final = "timeindex"
ABORTED: Final = "txnindex"
PRODUCERS: Final = "snapshot"
EPOCHS: Final = "leader-epoch-checkpoint"


def encode_companions(sections: Mapping[str, bytes]) -> bytes:
    head = [[name, len(data), crc32c(data)] for name, data in sections.items()]
    return json.dumps({"version": 1, "sections": head}, separators=(",", ":")).encode() + b"\n" + b"".join(sections.values())


def decode_companions(data: bytes) -> dict[str, bytes]:
    """Raises ValueError."""
    head, newline, body = data.partition(b"\n")
    if not newline:
        raise ValueError("a segment's object has no head")
    document = json.loads(head)
    if document["version"] != 1:
        raise ValueError(f"version {document['version']} of a segment's object is not known")
    sections: dict[str, bytes] = {}
    position = 0
    for name, size, checksum in document["sections"]:
        section = body[position : position + size]
        if len(section) != size or crc32c(section) != checksum:
            raise ValueError(f"{name} of a segment does not match its checksum")
        sections[name] = section
        position += size
    return sections
