"""Which earlier schemas a new one is held against, and in which direction.

Backward: who has the new schema can read what was written with the old one.  Forward: who has the old one can read what is
written with the new one.  Without `_TRANSITIVE` only the newest of the earlier ones counts.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.registry.formats.schema import TOO_DEEP, Schema
from headrace.registry.rules.entries import Json


class Level(NamedTuple):
    backward: bool
    forward: bool
    transitive: bool


PAIRS_MAX: Final = 32  # each keeps two schemas read
DEFAULT_LEVEL: Final = "BACKWARD"
LEVELS: Final[Mapping[str, Level]] = {
    "NONE": Level(False, False, False),
    "BACKWARD": Level(True, False, False),
    "BACKWARD_TRANSITIVE": Level(True, False, True),
    "FORWARD": Level(False, True, False),
    "FORWARD_TRANSITIVE": Level(False, True, True),
    "FULL": Level(True, True, False),
    "FULL_TRANSITIVE": Level(True, True, True),
}


class Earlier(NamedTuple):
    version: int
    schema: Schema
    kept: Mapping[str, Json]


def problems(new: Schema, kept: Mapping[str, Json], earlier: Sequence[Earlier], settings: Mapping[str, Json]) -> list[str]:
    """Why a schema cannot follow these, which are in order; nothing when it can."""
    level = LEVELS[settings.get("compatibilityLevel", DEFAULT_LEVEL)]
    group = settings.get("compatibilityGroup")
    alike = [each for each in earlier if group is None or _property(each.kept, group) == _property(kept, group)]
    checked = alike if level.transitive else alike[-1:]
    return [problem for old in reversed(checked) for problem in _between(new, old, level)]


def _between(new: Schema, old: Earlier, level: Level) -> Iterator[str]:
    if not (level.backward or level.forward):
        return
    if new.schema_type != old.schema.schema_type:
        yield f"version {old.version} is {old.schema.schema_type}, and this is {new.schema_type}"
        return
    try:
        if level.backward:
            yield from (f"{each} (reading what version {old.version} wrote)" for each in _compared.problems(new, old.schema))
        if level.forward:
            yield from (f"{each} (being read by version {old.version})" for each in _compared.problems(old.schema, new))
    except RecursionError:
        yield f"{TOO_DEEP} to be held against version {old.version}"


class Compared:
    """What came of comparisons lately.  A change is decided on twice, and the second time everybody waits for it."""

    def __init__(self, pairs_max: int) -> None:
        self._pairs_max = pairs_max
        self._lock = threading.Lock()
        # By identity, with both kept alive beside it: a schema that was read is one object for as long as it stays read.
        self._found: OrderedDict[tuple[int, int], tuple[Schema, Schema, list[str]]] = OrderedDict()

    def problems(self, reader: Schema, writer: Schema) -> list[str]:
        pair = (id(reader), id(writer))
        known = self._found.get(pair)
        if known is not None:
            return known[2]
        found = reader.problems_reading(writer)
        with self._lock:
            self._found[pair] = (reader, writer, found)
            if len(self._found) > self._pairs_max:
                self._found.popitem(last=False)
        return found


_compared = Compared(PAIRS_MAX)


def _property(kept: Mapping[str, Json], name: str) -> object:
    """Schemas of one subject may be of several groups, told apart by a property in their metadata."""
    metadata = kept.get("metadata") or {}
    properties = metadata.get("properties") or {} if isinstance(metadata, Mapping) else {}
    return properties.get(name) if isinstance(properties, Mapping) else None
