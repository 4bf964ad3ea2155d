"""The bytes that consumers carry inside JoinGroup and SyncGroup: subscriptions and assignments of the protocol type `consumer`.

The coordinator hands them through unread, except to learn which topics a group reads and to move a group between protocols.
Every version begins like the one before, so a newer one than we know is read as the newest that we know.
"""

import struct
from collections.abc import Mapping
from dataclasses import field

from headrace.declaring import dataclass

NEWEST_VERSION = 3
CONSUMER = "consumer"


class MalformedProtocol(ValueError):
    """A member's bytes are not what consumers send: it may be another kind of client, so this is no one's error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a consumer joined with."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    generation: int = -1
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a leader gave a consumer."""

    partitions: Mapping[str, tuple[int, ...]]
    user_data: bytes | None = None


def read_subscription(data: bytes) -> Subscription:
    reader = _Reader(data)
    version = min(reader.version(), NEWEST_VERSION)
    topics = tuple(reader.text() for _ in range(reader.length()))
    user_data = reader.optional_bytes()
    owned = reader.partitions() if version >= 1 else {}
    generation = reader.int32() if version >= 2 else -1
    rack_id = reader.optional_text() if version >= 3 else None
    return Subscription(version=version, topics=topics, user_data=user_data, owned=owned, generation=generation, rack_id=rack_id)


def read_topics(data: bytes) -> frozenset[str]:
    """Only the topics: they stand first in every version."""
    reader = _Reader(data)
    reader.version()
    return frozenset(reader.text() for _ in range(reader.length()))


def read_assignment(data: bytes) -> Assignment:
    reader = _Reader(data)
    reader.version()
    return Assignment(partitions=reader.partitions(), user_data=reader.optional_bytes())


def write_assignment(partitions: Mapping[str, tuple[int, ...]], version: int) -> bytes:
    parts = [struct.pack(">hi", version, len(partitions))]
    for topic in sorted(partitions):
        name = topic.encode()
        indexes = partitions[topic]
        parts.append(struct.pack(f">h{len(name)}si{len(indexes)}i", len(name), name, len(indexes), *indexes))
    parts.append(struct.pack(">i", -1))
    return b"".join(parts)


class _Reader:
    """Reads big-endian values one after the other; anything that does not fit is malformed."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def version(self) -> int:
        version = self._int16()
        if version < 0:
            raise MalformedProtocol(f"version {version}")
        return version

    def int32(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def length(self) -> int:
        length = self.int32()
        # Each element takes two bytes at least, so a larger count is a lie.
        if length < 0 or length * 2 > len(self._data):
            raise MalformedProtocol(f"{length} elements in {len(self._data)} bytes")
        return length

    def text(self) -> str:
        value = self.optional_text()
        if value is None:
            raise MalformedProtocol("a name is null")
        return value

    def optional_text(self) -> str | None:
        length = self._int16()
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedProtocol(str(error)) from None

    def optional_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self._take(length)

    def partitions(self) -> dict[str, tuple[int, ...]]:
        return {self.text(): tuple(self.int32() for _ in range(self.length())) for _ in range(self.length())}

    def _int16(self) -> int:
        return int(struct.unpack(">h", self._take(2))[0])

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise MalformedProtocol(f"cut off at byte {len(self._data)}")
        taken = self._data[self._position : end]
        self._position = end
        return taken
