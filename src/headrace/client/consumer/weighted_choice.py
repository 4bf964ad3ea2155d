"""Whose turn it is, by weights: the more weight the more turns, evenly spread, and nobody who is ready waits for ever.

Each that is ready gains its weight, and whoever has most pays for all of them and has the turn.  So of `total / weight` turns,
rounded up, each that stays ready has one at least.
"""

from collections.abc import Collection, Mapping


class WeightedTurns:
    """Smooth weighted round robin over those that are ready."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = dict(weights)
        self._credits = dict.fromkeys(weights, 0)

    def next(self, ready: Collection[str]) -> str | None:
        """Who has the next turn; None when nobody is ready."""
        chosen = None
        total = 0
        for name, weight in self._weights.items():
            if name not in ready:
                # Who has nothing to do saves nothing up for later, and owes nothing.
                self._credits[name] = 0
                continue
            total += weight
            self._credits[name] += weight
            if chosen is None or self._credits[name] > self._credits[chosen]:
                chosen = name
        if chosen is not None:
            self._credits[chosen] -= total
        return chosen
