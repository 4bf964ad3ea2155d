"""Matches names against a pattern by following all ways through it at once, so that no pattern can take exponential time.

The pattern becomes a graph of steps; sets of places in that graph are remembered as they are met, which makes a pattern that is
used on many names as fast as a table look-up per character.
"""

from dataclasses import field

from headrace.coordination.group.pattern.parsing import InvalidPattern, Parser
from headrace.coordination.group.pattern.syntax import Choice, Edge, Letters, Node, Repeat, Sequence
from headrace.declaring import dataclass

STEPS_MAX = 20_000
REMEMBERED_MAX = 10_000

Places = frozenset[int]


@dataclass(slots=True)
class Step:
    """One place in the graph: where to go freely, past an edge, or over a character."""

    over: Letters | None = None
    edge: Edge | None = None
    next: list[int] = field(default_factory=list)


class Pattern:
    """A pattern that matches whole names."""

    def __init__(self, text: str) -> None:
        """Raises InvalidPattern."""
        self.text = text
        self._steps: list[Step] = []
        self._end = self._add(Step())
        self._start = self._build(Parser(text).parse(), self._end)
        self._has_edges = any(step.edge is not None for step in self._steps)
        self._remembered: dict[tuple[Places, str | None, str], Places] = {}

    def matches(self, name: str) -> bool:
        places: Places = frozenset({self._start})
        before: str | None = None
        for letter in name:
            places = self._after(places, before, letter)
            if not places:
                return False
            before = letter
        return self._end in self._reachable(places, before, None)

    # --- following --------------------------------------------------------------------------------------------------------

    def _after(self, places: Places, before: str | None, letter: str) -> Places:
        key = (places, before if self._has_edges else None, letter)
        known = self._remembered.get(key)
        if known is None:
            reachable = self._reachable(places, before, letter)
            crossed = (self._steps[place] for place in reachable)
            known = frozenset(step.next[0] for step in crossed if step.over is not None and step.over.holds(letter))
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[key] = known
        return known

    def _reachable(self, places: Places, before: str | None, after: str | None) -> set[int]:
        """All places that can be got to without reading a character."""
        seen = set(places)
        waiting = list(places)
        while waiting:
            step = self._steps[waiting.pop()]
            if step.over is not None or (step.edge is not None and not step.edge.holds(before, after)):
                continue
            for place in step.next:
                if place not in seen:
                    seen.add(place)
                    waiting.append(place)
        return seen

    # --- building ---------------------------------------------------------------------------------------------------------

    def _add(self, step: Step) -> int:
        if len(self._steps) >= STEPS_MAX:
            raise InvalidPattern("expression is too large")
        self._steps.append(step)
        return len(self._steps) - 1

    def _build(self, node: Node, then: int) -> int:
        """Add the steps of a node that end in `then`; return where they begin."""
        match node:
            case Letters():
                return self._add(Step(over=node, next=[then]))
            case Edge():
                return self._add(Step(edge=node, next=[then]))
            case Sequence():
                for part in reversed(node.parts):
                    then = self._build(part, then)
                return then
            case Choice():
                return self._add(Step(next=[self._build(part, then) for part in node.parts]))
            case Repeat():
                return self._build_repeat(node, then)

    def _build_repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self._add(Step())
            self._steps[loop].next = [self._build(node.part, loop), then]
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._add(Step(next=[self._build(node.part, then), end]))
        for _ in range(node.least):
            then = self._build(node.part, then)
        return then
