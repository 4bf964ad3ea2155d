"""JSON Schemas that refer to each other: where a `$ref` leads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

import jsonschema_rs

from headrace.registry.formats.schema import InvalidSchema

Tree = Any
BASE = "file:///schema"  # of one that gives itself no `$id`
# With something in it, jsonschema-rs fetches nothing: neither from other machines nor from the files of this one.
NOTHING_ELSE: Final = jsonschema_rs.Registry([("urn:headrace:nothing", True)])


class Documents:
    """A schema and those it refers to, each under its name and under the `$id` it gives itself."""

    def __init__(self, tree: Tree, referenced: Mapping[str, Tree]) -> None:
        self.tree = tree
        self._by_address: dict[str, Tree] = {}
        self._anchors: dict[str, Tree] = {}
        for name, document in referenced.items():
            self._by_address[urljoin(BASE, name)] = document
            self._enter(document, urljoin(BASE, name))
        self._enter(tree, BASE)

    def _enter(self, tree: Tree, base: str) -> None:
        self._by_address.setdefault(base, tree)
        for address, node in _addressed(tree, base):
            self._by_address[address] = node
            anchor = node.get("$anchor")
            if isinstance(anchor, str):
                self._anchors[f"{address}#{anchor}"] = node

    def base_of(self, tree: Tree, around: str) -> str:
        return _base(tree, around)

    def target(self, reference: str, base: str) -> tuple[Tree, str]:
        """What a `$ref` means at a place whose address is `base`, and the address there."""
        address, fragment = (base, reference[1:]) if reference.startswith("#") else urldefrag(urljoin(base, reference))
        document = self._by_address.get(address)
        if document is None and reference in self._by_address:
            document, address = self._by_address[reference], reference
        if document is None:
            raise InvalidSchema(f"$ref '{reference}' leads to '{address}', which is not among its references")
        if fragment and not fragment.startswith("/"):
            found = self._anchors.get(f"{address}#{fragment}")
            if found is None:
                raise InvalidSchema(f"$ref '{reference}' leads to an anchor that does not exist")
            return found, address
        return _pointed_at(document, unquote(fragment), reference), address


def every_reference(tree: Tree, base: str) -> Iterator[tuple[str, str]]:
    """All `$ref`s of a schema, with the address of the place where each stands."""
    if isinstance(tree, list):
        for each in tree:
            yield from every_reference(each, base)
    elif isinstance(tree, Mapping):
        base = _base(tree, base)
        reference = tree.get("$ref")
        if isinstance(reference, str):
            yield reference, base
        for key, value in tree.items():
            if key not in ("const", "enum", "default", "examples"):
                yield from every_reference(value, base)


def _base(tree: Tree, around: str) -> str:
    own = (tree.get("$id") or tree.get("id")) if isinstance(tree, Mapping) else None
    return urldefrag(urljoin(around, own))[0] if isinstance(own, str) else around


def _addressed(tree: Tree, base: str) -> Iterator[tuple[str, Mapping[str, Tree]]]:
    if isinstance(tree, list):
        for each in tree:
            yield from _addressed(each, base)
    elif isinstance(tree, Mapping):
        own = _base(tree, base)
        if own != base or "$anchor" in tree:
            yield own, tree
        for key, value in tree.items():
            if key not in ("const", "enum", "default", "examples"):
                yield from _addressed(value, own)


def _pointed_at(document: Tree, pointer: str, reference: str) -> Tree:
    found = document
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise InvalidSchema(f"$ref '{reference}' leads nowhere: there is no '{name}'") from None
    return found
