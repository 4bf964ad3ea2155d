"""Which leader epoch began at which offset: how replicas find where their histories part (KIP-101, KIP-279).

Always: epochs and start offsets both increase along the list.  Every batch carries its epoch in its header, but an epoch whose
records were compacted away is in the file only, which has the text form of Kafka's checkpoints (see epoch_recovery.py).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from headrace.model.identity import NO_EPOCH, NO_OFFSET

FILE_NAME = "leader-epoch-checkpoint"
_VERSION = 0


class EpochStart(NamedTuple):
    """An epoch and the first offset written in it."""

    epoch: int
    start_offset: int


class EpochCache:
    """The epochs of one partition, oldest first."""

    __slots__ = ("_end_of_log", "_entries", "version")

    def __init__(self, end_of_log: Callable[[], int], entries: Iterable[EpochStart] = ()) -> None:
        self._end_of_log = end_of_log
        self._entries: list[EpochStart] = []
        # Grows with each change: whoever writes the file down compares it.
        self.version = 0
        for entry in entries:
            self.assign(*entry)

    def __repr__(self) -> str:
        return f"<epochs {', '.join(f'{entry.epoch} from {entry.start_offset}' for entry in self._entries) or 'none'}>"

    def __iter__(self) -> Iterator[EpochStart]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def latest(self) -> int:
        """The newest epoch; -1 when none is known."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    @property
    def earliest(self) -> EpochStart | None:
        return self._entries[0] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """An epoch begins.  What contradicts it (the same or later offsets under other epochs) is forgotten."""
        entries = self._entries
        if epoch < 0 or (entries and epoch == entries[-1].epoch):
            return
        if entries and epoch < entries[-1].epoch:
            # A replica that led and wrote nothing goes on in the epoch before: that one began where it began.
            del entries[bisect_right(entries, epoch, key=lambda entry: entry.epoch) :]
            if entries and entries[-1].epoch == epoch:
                self.version += 1
                return
        while entries and entries[-1].start_offset >= start_offset:
            entries.pop()
        entries.append(EpochStart(epoch, start_offset))
        self.version += 1

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch at or below this one, and where it ended; (-1, -1) when the epoch is newer than all known.

        An epoch older than all known ends where the oldest known begins.
        """
        entries = self._entries
        if not entries or epoch < 0 or epoch > entries[-1].epoch:
            return NO_EPOCH, NO_OFFSET
        if epoch == entries[-1].epoch:
            return epoch, self._end_of_log()
        higher = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        end = entries[higher].start_offset
        return (entries[higher - 1].epoch if higher else epoch), end

    def epoch_at(self, offset: int) -> int:
        """The epoch an offset was written in; -1 when it is older than all known."""
        index = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[index - 1].epoch if index else NO_EPOCH

    def truncate_from_end(self, offset: int) -> None:
        """Everything at and after an offset is gone."""
        while self._entries and self._entries[-1].start_offset >= offset:
            self._entries.pop()
            self.version += 1

    def truncate_from_start(self, offset: int) -> None:
        """Everything below an offset is gone; the epoch that holds it now begins there."""
        index = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        if index == 0 or (index == 1 and self._entries[0].start_offset == offset):
            return
        self._entries[:index] = [EpochStart(self._entries[index - 1].epoch, offset)]
        self.version += 1

    def clear(self) -> None:
        self._entries.clear()
        self.version += 1

    def encode(self) -> bytes:
        """The checkpoint's text: version, count, then `epoch start-offset` by line."""
        entries = list(self._entries)
        lines = [str(_VERSION), str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
        return ("\n".join(lines) + "\n").encode()


def decode_epochs(text: bytes) -> list[EpochStart]:
    """The entries of a checkpoint; ValueError when it is not one."""
    lines = text.decode("ascii").splitlines()
    if len(lines) < 2 or int(lines[0]) != _VERSION or int(lines[1]) != len(lines) - 2:
        raise ValueError("not a leader epoch checkpoint")
    entries = []
    for line in lines[2:]:
        epoch, start_offset = line.split()
        entries.append(EpochStart(int(epoch), int(start_offset)))
    if any(a.epoch >= b.epoch or a.start_offset >= b.start_offset for a, b in pairwise(entries)):
        raise ValueError("epochs or their offsets do not increase")
    return entries
