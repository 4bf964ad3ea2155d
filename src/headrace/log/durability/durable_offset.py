"""The offset below which a log is known to be on the medium, kept in the log's own directory.

Written whenever a sync has covered the end of a segment: so a segment that is followed by another was either wholly durable,
and this file says so, or nobody was promised what follows.  The file `durable-offset` holds the offset and a CRC of it; Kafka
ignores it.
"""

from pathlib import Path
from typing import Final

from headrace.host.disk import Disk
from headrace.records.checksum import crc32c

FILE_NAME: Final = "durable-offset"


def write_durable_offset(disk: Disk, directory: Path, offset: int) -> None:
    text = str(offset).encode()
    disk.write_atomically(directory / FILE_NAME, text + b" %08x\n" % crc32c(text))


def read_durable_offset(disk: Disk, directory: Path) -> int:
    """0 when there is none; ValueError when the file is not what was written."""
    path = directory / FILE_NAME
    if not disk.exists(path):
        return 0
    text, _, crc = disk.read_bytes(path).strip().partition(b" ")
    if not text.isdigit() or int(crc or b"0", 16) != crc32c(text):
        raise ValueError(f"{path} is broken")
    return int(text)
