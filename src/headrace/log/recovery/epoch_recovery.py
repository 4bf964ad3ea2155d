"""Where leader epochs began, by two witnesses: the checkpoint, which may be old, and the batches, of which some may be gone.

What a batch says is so.  The checkpoint is believed where it was written after everything it speaks of, and elsewhere only in
what no batch contradicts: an epoch all of whose records are gone is known from nowhere else, and without it a replica that kept
records of the epoch before would not be told to give them up.
"""

from headrace.log.epochs import EpochCache, EpochStart


class EpochRecovery:
    """What is known so far."""

    def __init__(self) -> None:
        self.claims: list[EpochStart] = []
        # Epoch -> the first and the last offset at which a batch of it begins.
        self._seen: dict[int, tuple[int, int]] = {}

    @property
    def latest_claim(self) -> int:
        return self.claims[-1].epoch if self.claims else -1

    def see(self, epoch: int, base_offset: int) -> None:
        """A batch that is in the log.  Offsets rise from call to call; so do epochs, and one that was too high is forgotten."""
        while self._seen and next(reversed(self._seen)) > epoch:
            self._seen.popitem()
        first, _ = self._seen.get(epoch, (base_offset, base_offset))
        self._seen[epoch] = first, base_offset

    def settle(self, epochs: EpochCache, sure_below: int) -> None:
        """Fill the cache; below an offset the checkpoint is sure, and no batches need have been seen."""
        starts = {epoch: first for epoch, (first, _) in self._seen.items()}
        for epoch, start in self.claims:
            if start < sure_below or self._agrees(epoch, start):
                starts[epoch] = min(start, starts.get(epoch, start))
        for epoch in sorted(starts):
            epochs.assign(epoch, starts[epoch])

    def _agrees(self, epoch: int, start: int) -> bool:
        return all(last < start if seen < epoch else first >= start for seen, (first, last) in self._seen.items())
