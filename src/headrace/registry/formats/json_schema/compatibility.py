"""Whether every document that one schema lets pass, another lets pass, too.

By structure: what cannot be seen to be so counts as a problem.  A property that the writer does not name may still be in its
documents, of any kind, unless `additionalProperties` forbids it: that is why a property can be added only to a closed object, and
taken away only from an open one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs

from headrace.registry.formats.json_schema.documents import NOTHING_ELSE, Documents, Tree
from headrace.registry.formats.json_schema.limits import (
    array_limits,
    contains_limits,
    number_limits,
    object_limits,
    string_limits,
)

EVERY_TYPE: Final = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
COMBINED: Final = ("allOf", "anyOf", "oneOf")
CONDITIONAL: Final = ("if", "then", "else")
DEEP: Final = 30
COMPARED_MAX: Final = 50_000  # parts of schemas; those that name each other over and over have more than anyone can wait for
PATIENCE: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000)
UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
ANNOTATIONS: Final = frozenset(
    (
        *("title", "description", "default", "examples", "$schema", "$id", "id", "$comment", "$anchor", "definitions", "$defs"),
        *("readOnly", "writeOnly", "deprecated", "connect.index", "connect.type"),
    )
)


@dataclass(frozen=True)
class Side:
    """A part of a schema, in its document, with the address that its `$ref`s are relative to."""

    documents: Documents
    tree: Tree
    base: str

    def part(self, tree: Tree) -> Side:
        return Side(self.documents, tree, self.documents.base_of(tree, self.base))

    def get(self, key: str) -> Side | None:
        return self.part(self.tree[key]) if isinstance(self.tree, Mapping) and key in self.tree else None

    @property
    def anything(self) -> bool:
        return self.tree is True or (isinstance(self.tree, Mapping) and not self.tree.keys() - ANNOTATIONS)

    @property
    def nothing(self) -> bool:
        return self.tree is False or (isinstance(self.tree, Mapping) and self.tree.get("not") in (True, {}))


def problems(reader: Side, writer: Side) -> list[str]:
    try:
        return list(_Comparison().problems(reader, writer, ""))
    except _TooMuch:
        return [f"at /: there is more to compare than {COMPARED_MAX:,} parts; a part that is used in many places counts in each"]


class _TooMuch(Exception):
    """Comparing would take too long."""


class _Comparison:
    def __init__(self) -> None:
        self._under_way: set[tuple[int | str, int | str]] = set()
        self._compared_count = 0

    def problems(self, reader: Side, writer: Side, path: str) -> Iterator[str]:
        self._compared_count += 1
        if self._compared_count > COMPARED_MAX:
            raise _TooMuch
        reader, writer = _followed(reader), _followed(writer)
        if reader.anything or writer.nothing or _alike(reader, writer):
            return
        pair = self._pair(reader, writer)
        if pair in self._under_way:  # a schema that contains itself is fine if everything around it is
            return
        self._under_way.add(pair)
        try:
            yield from self._compared(reader, writer, path)
        finally:
            self._under_way.discard(pair)

    def _pair(self, reader: Side, writer: Side) -> tuple[int | str, int | str]:
        """What is compared.  Deep down by content: what was put together out of several parts is another object each time."""
        if len(self._under_way) < DEEP:
            return id(reader.tree), id(writer.tree)
        return json.dumps(reader.tree, sort_keys=True), json.dumps(writer.tree, sort_keys=True)

    def _compared(self, reader: Side, writer: Side, path: str) -> Iterator[str]:
        if reader.nothing:
            yield f"{_at(path)} nothing is accepted any more"
            return
        if (parts := reader.get("allOf")) is not None:
            for part in parts.tree:
                yield from self.problems(reader.part(part), writer, path)
            rest = {key: value for key, value in reader.tree.items() if key != "allOf"}
            yield from self.problems(reader.part(rest), writer, path)
            return
        values = _listed(writer)
        if values is not None:
            yield from self._listed_values(reader, writer, values, path)
            return
        for kind in ("anyOf", "oneOf"):
            if (branches := writer.get(kind)) is not None and not self._same_branches(reader, writer, kind):
                for branch in branches.tree:
                    yield from self.problems(reader, _narrowed(writer, branch, kind), path)
                return
        if (parts := writer.get("allOf")) is not None:
            if any(not list(self.problems(reader, writer.part(part), path)) for part in parts.tree):
                return
            merged = _merged(writer, parts.tree)
            if merged is not None:
                yield from self.problems(reader, merged, path)
                return
        yield from self._one_writer(reader, writer, path)

    def _same_branches(self, reader: Side, writer: Side, kind: str) -> bool:
        ours = reader.get(kind)
        return ours is not None and ours.tree == _tree(writer).get(kind)

    def _listed_values(self, reader: Side, writer: Side, values: list[Any], path: str) -> Iterator[str]:
        accepted = _listed(reader)
        if accepted is not None:
            missing = [each for each in values if not any(_same(each, other) for other in accepted)]
            if missing:
                yield f"{_at(path)} the values {missing} are not accepted any more"
        elif not isinstance(reader.tree, Mapping) or not _self_contained(reader.tree):
            yield from self._one_writer(reader, writer, path)
        else:
            try:
                validator = jsonschema_rs.validator_for(dict(reader.tree), pattern_options=PATIENCE, registry=NOTHING_ELSE)
            except (jsonschema_rs.ValidationError, ValueError):  # a part that refers to another one, or a pattern of another kind
                yield from self._one_writer(reader, writer, path)
                return
            wrong = [each for each in values if not validator.is_valid(each)]
            if wrong:
                yield f"{_at(path)} the values {wrong} are not accepted any more"

    def _one_writer(self, reader: Side, writer: Side, path: str) -> Iterator[str]:
        """The writer is no union any more; the reader may be all sorts of things at once, and all of them have to hold."""
        for kind in ("anyOf", "oneOf"):
            if (branches := reader.get(kind)) is not None and not self._same_branches(reader, writer, kind):
                tried = [list(self.problems(_narrowed(reader, branch, kind), writer, path)) for branch in branches.tree]
                if all(tried):
                    fewest = min(tried, key=len)
                    yield f"{_at(path)} no branch of {kind} accepts it: {fewest[0]}"
                return
        if (excluded := reader.get("not")) is not None:
            before = writer.get("not")
            if before is None or list(self.problems(before, excluded, path)):
                yield f"{_at(path)} 'not' excludes more"
        if _listed(reader) is not None:
            yield f"{_at(path)} only certain values are accepted now"
        for keyword in (*CONDITIONAL, *(() if _plain(_tree(reader)) and _plain(_tree(writer)) else UNEVALUATED)):
            if (ours := reader.get(keyword)) is not None and (
                writer.get(keyword) or Side(ours.documents, None, "")
            ).tree != ours.tree:
                yield f"{_at(path)} '{keyword}' was added or changed"
        yield from self._by_type(reader, writer, path)

    def _by_type(self, reader: Side, writer: Side, path: str) -> Iterator[str]:
        read, written = _types(reader), _types(writer)
        lost = {each for each in written if each not in read and not (each == "integer" and "number" in read)}
        if lost:
            yield f"{_at(path)} the type {', '.join(sorted(lost))} is not accepted any more"
        ours, theirs = _tree(reader), _tree(writer)
        if written & {"integer", "number"}:
            yield from (f"{_at(path)} {each}" for each in number_limits(ours, theirs))
        if "string" in written:
            yield from (f"{_at(path)} {each}" for each in string_limits(ours, theirs))
        if "array" in written and "array" in read:
            yield from (f"{_at(path)} {each}" for each in array_limits(ours, theirs))
            yield from self._arrays(reader, writer, path)
        if "object" in written and "object" in read:
            yield from (f"{_at(path)} {each}" for each in object_limits(ours, theirs))
            yield from self._objects(reader, writer, path)

    # Arrays

    def _arrays(self, reader: Side, writer: Side, path: str) -> Iterator[str]:
        (read_first, read_rest), (written_first, written_rest) = _items(reader), _items(writer)
        for index in range(max(len(read_first), len(written_first))):
            ours = read_first[index] if index < len(read_first) else read_rest
            theirs = written_first[index] if index < len(written_first) else written_rest
            yield from self.problems(ours, theirs, f"{path}/items/{index}")
        yield from self.problems(read_rest, written_rest, f"{path}/items")
        contains, before = reader.get("contains"), writer.get("contains")
        if contains is not None:
            wider = before is not None and not list(self.problems(contains, before, path))
            if not wider or list(contains_limits(_tree(reader), _tree(writer))):
                yield f"{_at(path)} 'contains' demands more"

    # Objects

    def _objects(self, reader: Side, writer: Side, path: str) -> Iterator[str]:
        ours, theirs = _named(reader, "properties"), _named(writer, "properties")
        for name in sorted(ours.keys() | theirs.keys()):
            where = f"{path}/properties/{name}"
            for read in _schemas_of(reader, name):
                for problem in self._property(read, writer, name, where):
                    yield problem if name in theirs or name not in ours else _added(problem, where)
        patterns, others = _named(reader, "patternProperties"), _named(writer, "patternProperties")
        for pattern, part in others.items():
            yield from self.problems(patterns.get(pattern) or _additional(reader), part, f"{path}/patternProperties/{pattern}")
        for pattern, part in patterns.items():
            if pattern not in others:
                yield from self.problems(part, _additional(writer), f"{path}/patternProperties/{pattern}")
        yield from self.problems(_additional(reader), _additional(writer), f"{path}/additionalProperties")
        if (names := reader.get("propertyNames")) is not None:
            yield from self.problems(names, writer.get("propertyNames") or writer.part(True), f"{path}/propertyNames")
        earlier = _named(writer, "dependentSchemas")
        for name, part in _named(reader, "dependentSchemas").items():
            yield from self.problems(part, earlier.get(name) or writer.part(True), f"{path}/dependentSchemas/{name}")
        yield from _required(reader, writer, ours, path)

    def _property(self, read: Side, writer: Side, name: str, path: str) -> list[str]:
        """It is enough that one of the schemas that count for the writer's property is narrow enough."""
        tried = [list(self.problems(read, written, path)) for written in _schemas_of(writer, name)]
        return min(tried, key=len)


def _added(problem: str, where: str) -> str:
    return f"{problem}; {where} is new, and the writer's object is open to any property of that name"


def _required(reader: Side, writer: Side, properties: Mapping[str, Side], path: str) -> Iterator[str]:
    before = set(_tree(writer).get("required") or ())
    for name in _tree(reader).get("required") or ():
        described = properties.get(name)
        has_default = described is not None and isinstance(described.tree, Mapping) and "default" in described.tree
        if name not in before and not has_default:
            yield f"{_at(path)} the property '{name}' is required now"
    for name, needed in _dependencies(reader).items():
        earlier = _dependencies(writer).get(name)
        if earlier is None or not set(needed) <= set(earlier):
            yield f"{_at(path)} the property '{name}' demands others now"


def _dependencies(side: Side) -> dict[str, list[str]]:
    tree = _tree(side)
    both = {**(tree.get("dependencies") or {}), **(tree.get("dependentRequired") or {})}
    return {name: needed if isinstance(needed, list) else [f"{needed}"] for name, needed in both.items()}


def _schemas_of(side: Side, name: str) -> list[Side]:
    """The schemas that count for a property of this name."""
    own = _named(side, "properties").get(name)
    matching = [part for pattern, part in _named(side, "patternProperties").items() if _matches(pattern, name)]
    return [*([] if own is None else [own]), *matching] or [_additional(side)]


@lru_cache(1000)
def _matches(pattern: str, name: str) -> bool:
    """By a matcher that gives up: both are strangers', and Python's own would hold up every thread for as long as they like."""
    try:
        return bool(jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=PATIENCE).is_valid(name))
    except (jsonschema_rs.ValidationError, ValueError):
        return False


def _named(side: Side, keyword: str) -> dict[str, Side]:
    found = _tree(side).get(keyword)
    return {name: side.part(each) for name, each in found.items()} if isinstance(found, Mapping) else {}


def _additional(side: Side) -> Side:
    return side.part(_others(_tree(side), "additionalProperties", "unevaluatedProperties"))


def _others(tree: Mapping[str, Any], keyword: str, unevaluated: str) -> Tree:
    """What counts for all that is not named; where nothing is combined, `unevaluated…` means the same as the older words."""
    return tree.get(keyword, tree.get(unevaluated, True) if _plain(tree) else True)


def _plain(tree: Mapping[str, Any]) -> bool:
    return not tree.keys() & {*COMBINED, *CONDITIONAL, "dependentSchemas"}


def _items(side: Side) -> tuple[list[Side], Side]:
    """The schemas of the first items, and of all that follow; older drafts say it with other words."""
    tree = _tree(side)
    first = tree.get("prefixItems")
    if isinstance(first, list):
        return [side.part(each) for each in first], side.part(_others(tree, "items", "unevaluatedItems"))
    items = _others(tree, "items", "unevaluatedItems")
    if isinstance(items, list):
        return [side.part(each) for each in items], side.part(tree.get("additionalItems", True))
    return [], side.part(items)


def _followed(side: Side) -> Side:
    """Through `$ref`s; what stands beside one counts as well, where anything does."""
    for _ in range(100):
        reference = side.tree.get("$ref") if isinstance(side.tree, Mapping) else None
        if not isinstance(reference, str):
            return side
        tree, base = side.documents.target(reference, side.base)
        beside = {key: value for key, value in side.tree.items() if key != "$ref" and key not in ANNOTATIONS}
        target = Side(side.documents, tree, side.documents.base_of(tree, base))
        if beside and isinstance(tree, Mapping):
            return Side(side.documents, {**tree, **beside}, target.base)
        side = target
    return side


def _narrowed(side: Side, branch: Tree, kind: str) -> Side:
    """One branch of a union together with what stands beside the union."""
    around = {key: value for key, value in side.tree.items() if key != kind and key not in ANNOTATIONS}
    if not around:
        return side.part(branch)
    return _merged(side.part(around), [branch]) or side.part(branch)


def _merged(side: Side, parts: Iterable[Tree]) -> Side | None:
    """All of these at once, as one schema: each may say what the others do not; properties are joined."""
    merged: dict[str, Any] = {key: value for key, value in side.tree.items() if key != "allOf"}
    for part in parts:
        tree = _followed(side.part(part)).tree
        if tree is True:
            continue
        if not isinstance(tree, Mapping):
            return None
        for key, value in tree.items():
            if key in ("properties", "patternProperties", "definitions", "$defs") and isinstance(merged.get(key), Mapping):
                merged[key] = {**value, **merged[key]}
            elif key == "required" and key in merged:
                merged[key] = [*merged[key], *value]
            elif key in ("$id", "id", "$schema"):
                continue
            else:
                merged.setdefault(key, value)
    return Side(side.documents, merged, side.base)


def _listed(side: Side) -> list[Any] | None:
    tree = _tree(side)
    if "const" in tree:
        return [tree["const"]]
    return list(tree["enum"]) if isinstance(tree.get("enum"), list) else None


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _types(side: Side) -> frozenset[str]:
    given = _tree(side).get("type")
    if given is None:
        return EVERY_TYPE
    types = frozenset([given] if isinstance(given, str) else given)
    return types | {"integer"} if "number" in types else types


def _tree(side: Side) -> Mapping[str, Any]:
    return side.tree if isinstance(side.tree, Mapping) else {}


def _alike(one: Side, other: Side) -> bool:
    return bool(one.tree == other.tree) and (one.documents is other.documents or _self_contained(one.tree))


def _self_contained(tree: Tree) -> bool:
    if isinstance(tree, list):
        return all(map(_self_contained, tree))
    return not isinstance(tree, Mapping) or ("$ref" not in tree and all(map(_self_contained, tree.values())))


def _at(path: str) -> str:
    return f"at {path or '/'}:"
