"""How much memory there is for what was read and written lately: the operating system keeps it there as long as there is room."""

import os
from pathlib import Path
from typing import Final

# Of what is available now: others want some, too, and the system lets go of pages before the last is taken.
SHARE: Final = 4
WITHOUT_KNOWING: Final = 64 * 1024 * 1024


def page_cache_bytes(files: Path = Path("/")) -> int:
    """A quarter of the memory that is available, or that the container we run in may use."""
    known = [size for size in (_available(files), _container_limit(files)) if size is not None]
    return min(known) // SHARE if known else WITHOUT_KNOWING


def _available(files: Path) -> int | None:
    try:
        for line in (files / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (OSError, ValueError):
        return None


def _container_limit(files: Path) -> int | None:
    for name in ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            return int((files / name).read_text())
        except (OSError, ValueError):
            # It does not exist, or says "max".
            continue
    return None
