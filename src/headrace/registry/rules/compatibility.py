"""Which earlier schemas a new one is held against, and in which direction.

Backward: who has the new schema can read what was written with the old one.  Forward: who has the old one can read what is
written with the new one.  Without `_TRANSITIVE` only the newest of the earlier ones counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.registry.formats.schema import TOO_DEEP, Schema
from headrace.registry.rules.entries import Json


class Level(NamedTuple):
    backward: bool
    forward: bool
    transitive: bool


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
            yield from (f"{each} (reading what version {old.version} wrote)" for each in new.problems_reading(old.schema))
        if level.forward:
            yield from (f"{each} (being read by version {old.version})" for each in old.schema.problems_reading(new))
    except RecursionError:
        yield f"{TOO_DEEP} to be held against version {old.version}"


def _property(kept: Mapping[str, Json], name: str) -> object:
    """Schemas of one subject may be of several groups, told apart by a property in their metadata."""
    metadata = kept.get("metadata") or {}
    properties = metadata.get("properties") or {} if isinstance(metadata, Mapping) else {}
    return properties.get(name) if isinstance(properties, Mapping) else None
