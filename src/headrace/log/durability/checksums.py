"""Checksums for the small files of a directory whose formats have none: a flipped bit must not pass for another number.

The file `checksums` holds one line per file: its name, and the CRC-32C of its present and of its previous content, so that a
crash between writing the checksum and writing the file leaves a pair that matches.  Kafka ignores the file; a directory without
it (one that Kafka wrote) is taken as it is.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.host.disk import Disk
from headrace.records.checksum import crc32c

FILE_NAME: Final = "checksums"


class Checksums:
    """The checksums of one directory.  Not for two threads at once."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._disk = disk
        self._path = directory / FILE_NAME
        self._known: dict[str, tuple[int, ...]] = {}
        # The file of checksums is itself broken: nothing can be told, as if it were not there, but somebody should know.
        self.is_broken = False
        self.is_there = disk.exists(self._path)
        if self.is_there:
            self._load()

    def _load(self) -> None:
        try:
            body, _, crc = self._disk.read_bytes(self._path).rstrip(b"\n").rpartition(b"\n")
            if int(crc, 16) != crc32c(body):
                raise ValueError
            for line in body.decode().splitlines():
                name, *sums = line.split()
                self._known[name] = tuple(int(text, 16) for text in sums)
        except ValueError:
            self.is_broken = True
            self._known.clear()

    def get(self, name: str) -> int | None:
        """The checksum a file has now; None when nobody noted it."""
        known = self._known.get(name)
        return known[0] if known else None

    def read(self, name: str, *, unchecked: bool = False) -> bytes | None:
        """A file's content; None when there is no such file; ValueError when the content is not what was written.

        `unchecked`: content is taken as it is when the checksums themselves were lost.
        """
        path = self._path.with_name(name)
        if not self._disk.exists(path):
            return None
        data = self._disk.read_bytes(path)
        known = self._known.get(name)
        if (self.is_broken and not unchecked) or (known is not None and crc32c(data) not in known):
            raise ValueError(f"{path} does not match its checksum")
        return data

    def write(
        self,
        files: Mapping[str, bytes],
        *,
        noted: Mapping[str, int] | None = None,
        forget: frozenset[str] = frozenset(),
        durable: bool = True,
    ) -> None:
        """Replace files together with their checksums; note those of files others wrote, forget those of files that are gone.

        Not `durable`: a crash of the process leaves the old or the new all the same; a power failure may leave a file that does
        not match, for the reader to find out.
        """
        before = dict(self._known)
        for name, data in files.items():
            crc, previous = int(crc32c(data)), self.get(name)
            if previous != crc:
                self._known[name] = (crc,) if previous is None else (crc, previous)
        self._known |= {name: (crc,) for name, crc in (noted or {}).items()}
        for name in forget:
            self._known.pop(name, None)
        try:
            if self._known != before or self.is_broken:
                self._replace(self._path, self._encode(), durable)
                self.is_broken = False
            for name, data in files.items():
                self._replace(self._path.with_name(name), data, durable)
        except OSError:
            # The file may be the old one: the next attempt must name that one's checksum, too.
            self._known = before
            raise

    def _replace(self, path: Path, data: bytes, durable: bool) -> None:
        if durable:
            self._disk.write_atomically(path, data)
            return
        if self._disk.exists(path) and self._disk.read_bytes(path) == data:
            return  # to put one file in the place of another costs a file system far more than to read it
        temporary = path.with_name(path.name + ".tmp")
        file = self._disk.open(temporary, create=True)
        try:
            file.truncate(0)
            file.append([data])
        finally:
            file.close()
        self._disk.rename(temporary, path)

    def names(self) -> frozenset[str]:
        return frozenset(self._known)

    def _encode(self) -> bytes:
        lines = [" ".join([name, *(f"{crc:08x}" for crc in sums)]) for name, sums in sorted(self._known.items())]
        body = "\n".join(lines).encode()
        return body + b"\n" + f"{crc32c(body):08x}".encode() + b"\n"
