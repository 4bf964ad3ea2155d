"""The aborted transactions of a segment: what `read_committed` readers must leave out.  Kafka's `.txnindex`.

Entries of 34 bytes: version, producer id, first and last offset of the transaction, and the last stable offset when it ended.
Entries are in the order of their last offsets.  They are few, and written at once; a closed segment's are read when a reader
asks.
Always: every entry is derived from markers in the log, so a broken file is rebuilt from its segment.  The format has no
checksum of its own; where the log has noted one, the file must match it.  Whoever changes the file has it synced with the log:
what a power failure leaves of it would be believed, and aborted records be read.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.host.disk import is_full
from headrace.log.segments.files import Handle
from headrace.records.checksum import crc32c

ENTRY_BYTES: Final = 34
_VERSION = 0
_ENTRY = struct.Struct(">hqqqq")


class AbortedEntry(NamedTuple):
    """One aborted transaction; `last_offset` is its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(entry: AbortedEntry) -> bytes:
    return _ENTRY.pack(_VERSION, *entry)


def decode_aborted(data: bytes) -> list[AbortedEntry]:
    """All entries of a file; ValueError when it cannot be one."""
    if len(data) % ENTRY_BYTES:
        raise ValueError("an aborted-transaction index ends within an entry")
    entries = []
    previous = -1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedEntry(*fields)
        if version != _VERSION:
            raise ValueError(f"aborted-transaction index version {version} is not known")
        # The marker comes after what it ends: so zeros, of a page that was never written, are no entry.
        if not 0 <= entry.first_offset < entry.last_offset or entry.last_offset <= previous or entry.producer_id < 0:
            raise ValueError("an aborted-transaction index is not in order")
        previous = entry.last_offset
        entries.append(entry)
    return entries


class AbortedIndex:
    """One file, made when the first transaction aborts."""

    __slots__ = ("_entries", "_handle", "_size", "crc", "is_unsynced")

    def __init__(self, handle: Handle, size_bytes: int, crc: int | None = None) -> None:
        self._handle = handle
        self._size = size_bytes
        # What the file's checksum must be; None where nobody noted it.
        self.crc = crc
        # Changed since somebody last saw to it that it is synced.
        self.is_unsynced = False
        # None: not read yet.  A segment without the file has an empty list from the start.
        self._entries: list[AbortedEntry] | None = None if size_bytes or crc is not None else []

    def __repr__(self) -> str:
        known = "unread" if self._entries is None else f"{len(self._entries)} aborted transactions"
        return f"<{self._handle.path.name}: {known}>"

    @property
    def handle(self) -> Handle:
        return self._handle

    @property
    def size_bytes(self) -> int:
        return self._size

    @property
    def is_empty(self) -> bool:
        return self._entries is not None and not self._entries

    def append(self, entry: AbortedEntry) -> None:
        """Note one.  On OSError it is known to readers all the same, and `write` tries again to get it into the file."""
        self.entries().append(entry)
        self.crc = None
        self.is_unsynced = True
        self.write()

    @property
    def is_unwritten(self) -> bool:
        return self._entries is not None and len(self._entries) * ENTRY_BYTES > self._size

    def write(self) -> None:
        """Hand to the file what is not in it yet."""
        missing = self.entries()[self._size // ENTRY_BYTES :]
        if not missing:
            return
        file = self._handle.file()
        try:
            file.append([b"".join(map(encode_aborted, missing))])
        except OSError as error:
            if is_full(error):
                file.truncate(self._size)
            raise
        self._size += len(missing) * ENTRY_BYTES

    def entries(self) -> list[AbortedEntry]:
        """All of them, oldest first.  ValueError when the file is broken."""
        if self._entries is None:
            data = self._handle.file().read_at(0, self._size)
            if self.crc is not None and crc32c(data) != self.crc:
                raise ValueError("an aborted-transaction index does not match its checksum")
            self._entries = decode_aborted(data)
        return self._entries

    def forget(self) -> None:
        """A closed segment need not keep them in memory: the next reader loads them."""
        if self._size and not self.is_unwritten:
            self._entries = None

    def checksum(self) -> int:
        """The checksum of what was written."""
        return int(crc32c(b"".join(map(encode_aborted, self.entries()))))

    def reaching(self, offset: int) -> list[AbortedEntry]:
        """Those that end at or after an offset."""
        entries = self.entries()
        return entries[bisect_left(entries, offset, key=lambda entry: entry.last_offset) :]

    def truncate_to(self, offset: int) -> None:
        """Forget transactions that ended at or after an offset.  Takes no room: what stays is where it was."""
        self._entries = [entry for entry in self.entries() if entry.last_offset < offset]
        self.crc = None
        kept = min(self._size, len(self._entries) * ENTRY_BYTES)
        if kept < self._size:
            self._handle.file().truncate(kept)
            self._size = kept
            self.is_unsynced = True

    def replace(self, entries: Iterable[AbortedEntry]) -> None:
        self._entries = list(entries)
        self.crc = None
        if self._size or self._entries:
            file = self._handle.file()
            file.truncate(0)
            file.append([b"".join(map(encode_aborted, self._entries))])
            self.is_unsynced = True
        self._size = len(self._entries) * ENTRY_BYTES
