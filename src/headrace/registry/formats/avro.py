"""Avro: read, and judged by the rules of schema resolution, with Apache's own library.

The canonical text is that of Avro's Java library: no white space, attributes in one order, `{"type": "int"}` as `"int"`; nothing
that readers could need is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from avro.compatibility import SchemaCompatibilityType
from avro.errors import AvroException
from avro.name import Names
from avro.schema import Schema as AvroLibrarySchema
from avro.schema import make_avsc_object

from headrace.registry.formats.avro_resolution import Checker, TooLarge
from headrace.registry.formats.schema import InvalidSchema, Named, Schema
from headrace.registry.rules.entries import AVRO

ORDER: Final = ("type", "name", "namespace", "doc", "fields", "symbols", "items", "values", "size")
LAST: Final = ("aliases",)
NAMED: Final = ("record", "error", "enum", "fixed")
PRIMITIVE: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
COMPLEX: Final = frozenset((*NAMED, "array", "map"))


def parse(text: str, referenced: tuple[Named, ...]) -> AvroSchema:
    names = Names()
    known: list[Any] = []
    for each in referenced:
        tree = _tree(each.text)
        _read(tree, names)
        known.append(tree)
    tree = _tree(text)
    return AvroSchema(canonical=_compact(_ordered(tree, "")), library=_read(tree, names), tree=tree, known=tuple(known))


@dataclass(frozen=True, kw_only=True)
class AvroSchema:
    canonical: str
    library: AvroLibrarySchema
    tree: Any
    known: tuple[Any, ...] = ()
    schema_type: str = AVRO

    def normalized(self) -> str:
        return _compact(_normal(_ordered(self.tree, "")))

    def formatted(self, form: str) -> str:
        return _compact(self._resolved) if form == "resolved" else self.canonical

    @cached_property
    def _resolved(self) -> Any:
        """With what it refers to written out where it is first used."""
        definitions = {name: tree for known in self.known for name, tree in _definitions(known, "")}
        return _inlined(_ordered(self.tree, ""), "", definitions, set())

    def problems_reading(self, writer: Schema) -> list[str]:
        assert isinstance(writer, AvroSchema)
        try:
            result = Checker().get_compatibility(self.library, writer.library)
        except TooLarge:
            return ["it has too many types in unions to be held against another"]
        if result.compatibility is SchemaCompatibilityType.compatible:
            return []
        places = sorted(result.locations) or ["/"]
        whats = sorted({each.name for each in result.incompatibilities})
        return [f"{', '.join(whats)} at {', '.join(places)}: {'; '.join(sorted(result.messages))}"]


def _tree(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.strip() in PRIMITIVE:  # a bare word is a schema for Avro's own parsers
            return text.strip()
        raise InvalidSchema("it is not JSON") from None


def _read(tree: Any, names: Names) -> AvroLibrarySchema:
    try:
        return make_avsc_object(tree, names)
    except (AvroException, TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidSchema(str(error) or type(error).__name__) from None


def _compact(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def _ordered(tree: Any, namespace: str) -> Any:
    """The tree as Java's library writes it.  `namespace` is that of the type around it, which need not be said again."""
    if isinstance(tree, list):
        return [_ordered(each, namespace) for each in tree]
    if not isinstance(tree, Mapping):
        return tree
    if tree.keys() == {"type"}:
        return _ordered(tree["type"], namespace)
    kind = tree.get("type")
    if kind not in COMPLEX:
        return _in_order({**tree, "type": _ordered(kind, namespace)})
    told = dict(tree)
    inner = namespace
    if kind in NAMED:
        told, inner = _name_split(told, namespace)
    for part in ("items", "values"):
        if part in told:
            told[part] = _ordered(told[part], inner)
    if isinstance(told.get("fields"), list):
        told["fields"] = [_field(each, inner) for each in told["fields"]]
    return _in_order(told)


def _name_split(tree: Mapping[str, Any], around: str) -> tuple[dict[str, Any], str]:
    """`"name": "a.b.C"` is C of the namespace a.b, and a namespace that is already around it is not said again."""
    told = dict(tree)
    space, _, short = str(tree.get("name", "")).rpartition(".")
    space = space or tree.get("namespace", around) or ""
    told["name"] = short
    told.pop("namespace", None)
    if space != around:
        told["namespace"] = space
    return told, space


def _field(field: Any, namespace: str) -> Any:
    if not isinstance(field, Mapping):
        return field
    told = {key: field[key] for key in ("name", "type", "doc", "default", "order") if key in field}
    told["type"] = _ordered(field.get("type"), namespace)
    if told.get("order") == "ascending":
        del told["order"]
    return {**told, **{key: value for key, value in field.items() if key not in (*told, "order")}}


def _in_order(tree: Mapping[str, Any]) -> dict[str, Any]:
    first = {key: tree[key] for key in ORDER if key in tree}
    between = {key: value for key, value in tree.items() if key not in first and key not in LAST}
    return {**first, **between, **{key: tree[key] for key in LAST if key in tree}}


def _normal(tree: Any) -> Any:
    """What has no order, in alphabetical order: attributes that Avro does not know."""
    if isinstance(tree, list):
        return [_normal(each) for each in tree]
    if not isinstance(tree, Mapping):
        return tree
    known = (*ORDER, "default", "order")
    first = {
        key: _normal(tree[key]) if key in ("type", "fields", "items", "values") else tree[key] for key in tree if key in known
    }
    return {**first, **{key: tree[key] for key in sorted(tree) if key not in first}}


def _definitions(tree: Any, namespace: str) -> Iterator[tuple[str, Any]]:
    """Every named type in a schema, by its full name."""
    if isinstance(tree, list):
        for each in tree:
            yield from _definitions(each, namespace)
    if not isinstance(tree, Mapping):
        return
    inner = namespace
    if tree.get("type") in NAMED:
        told, inner = _name_split(tree, "")
        if "namespace" not in told and "." not in str(tree.get("name")) and "namespace" not in tree:
            inner = namespace
        yield f"{inner}.{told['name']}".lstrip("."), {**tree, "name": told["name"], "namespace": inner}
    for part in ("items", "values", "type"):
        yield from _definitions(tree.get(part), inner)
    for field in tree.get("fields") or ():
        yield from _definitions(field.get("type"), inner)


def _inlined(tree: Any, namespace: str, definitions: Mapping[str, Any], seen: set[str]) -> Any:
    if isinstance(tree, str):
        name = tree if "." in tree else f"{namespace}.{tree}".lstrip(".")
        if tree in PRIMITIVE or name not in definitions or name in seen:
            return tree
        return _inlined(_ordered(definitions[name], namespace), namespace, definitions, seen)
    if isinstance(tree, list):
        return [_inlined(each, namespace, definitions, seen) for each in tree]
    if not isinstance(tree, Mapping):
        return tree
    inner = tree.get("namespace", namespace) if tree.get("type") in NAMED else namespace
    if tree.get("type") in NAMED:
        seen.add(f"{inner}.{tree['name']}".lstrip("."))
    told = {
        key: _inlined(value, inner, definitions, seen) if key in ("items", "values") else value for key, value in tree.items()
    }
    if "fields" in told:
        told["fields"] = [{**each, "type": _inlined(each["type"], inner, definitions, seen)} for each in told["fields"]]
    return told
