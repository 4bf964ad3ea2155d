"""How far a reader has got in each of its partitions, and how much of that may be committed.

A partition's records are first handed out, then finished, then committed; each number is the offset of the next record.  Always:
only finished records are committed, and a partition that was taken away leaves nothing behind, so that an answer which comes late
cannot move the offsets of the partition's next owner.  Safe to use from several threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from headrace.model.identity import TopicPartition

Positions = dict[TopicPartition, int]


class Offsets:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handed_out: Positions = {}
        self._finished: Positions = {}
        self._committed: Positions = {}

    def hand_out(self, positions: Mapping[TopicPartition, int]) -> None:
        with self._lock:
            self._handed_out.update(positions)

    def hand_out_one(self, place: TopicPartition, next_offset: int) -> None:
        with self._lock:
            self._handed_out[place] = next_offset

    def finish_handed_out(self) -> None:
        """Whoever asks for more has done with what they got."""
        if self._handed_out:
            with self._lock:
                self._finished.update(self._handed_out)
                self._handed_out.clear()

    def finish(self, positions: Mapping[TopicPartition, int]) -> None:
        with self._lock:
            self._finished.update(positions)

    def move(self, place: TopicPartition, offset: int) -> None:
        """A seek: the position is what was asked for, and so is what is committed next."""
        with self._lock:
            self._handed_out.pop(place, None)
            self._finished[place] = offset

    def reset(self, places: Iterable[TopicPartition]) -> None:
        """Back to what was committed: nothing handed out or finished since counts."""
        with self._lock:
            for place in places:
                self._handed_out.pop(place, None)
                self._finished.pop(place, None)

    def forget(self, places: Iterable[TopicPartition]) -> None:
        """The partition belongs to somebody else now."""
        with self._lock:
            for place in places:
                for positions in (self._handed_out, self._finished, self._committed):
                    positions.pop(place, None)

    def positions(self) -> Positions:
        """The next offset of everything handed out so far."""
        with self._lock:
            return {**self._finished, **self._handed_out}

    def to_commit(self, places: Iterable[TopicPartition] | None = None) -> Positions:
        """What is finished and not yet committed."""
        with self._lock:
            wanted = self._finished if places is None else {place for place in places if place in self._finished}
            return {place: self._finished[place] for place in wanted if self._committed.get(place) != self._finished[place]}

    def committed(self, positions: Mapping[TopicPartition, int]) -> None:
        with self._lock:
            # A partition may have been taken away while its commit was on the wire.
            self._committed.update({place: offset for place, offset in positions.items() if place in self._finished})
