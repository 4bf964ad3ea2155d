"""JSON Schema: checked against its own meta-schema by jsonschema-rs, and judged by what documents it lets pass."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from headrace.registry.formats.json_schema.compatibility import Side, problems
from headrace.registry.formats.json_schema.documents import BASE, NOTHING_ELSE, Documents, every_reference
from headrace.registry.formats.schema import InvalidSchema, Named, Schema
from headrace.registry.rules.entries import JSON

DRAFT = "http://json-schema.org/draft-07/schema#"  # of a schema that does not say
KNOWN_DRAFTS: Final = re.compile(r"https?://json-schema\.org/(draft-0[467]/|draft/2019-09/|draft/2020-12/)?schema#?")


def parse(text: str, referenced: tuple[Named, ...]) -> JsonSchema:
    tree = _tree(text)
    others = {each.name: _tree(each.text) for each in referenced}
    _check(tree)
    documents = Documents(tree, others)
    for reference, base in every_reference(tree, BASE):
        if not reference.startswith(("http://json-schema.org/", "https://json-schema.org/")):
            documents.target(reference, base)
    return JsonSchema(canonical=_compact(tree), documents=documents)


@dataclass(frozen=True, kw_only=True)
class JsonSchema:
    canonical: str
    documents: Documents
    schema_type: str = JSON

    def normalized(self) -> str:
        return _compact(self.documents.tree, sort_keys=True)

    def formatted(self, form: str) -> str:
        return self.canonical

    def problems_reading(self, writer: Schema) -> list[str]:
        assert isinstance(writer, JsonSchema)
        return problems(Side(self.documents, self.documents.tree, BASE), Side(writer.documents, writer.documents.tree, BASE))


def _tree(text: str) -> Any:
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise InvalidSchema(f"it is not JSON: {error}") from None
    if not isinstance(tree, dict | bool):
        raise InvalidSchema("a schema is a JSON object, or true or false")
    return tree


def _check(tree: Any) -> None:
    draft = tree.get("$schema", DRAFT) if isinstance(tree, dict) else DRAFT
    if not isinstance(draft, str) or KNOWN_DRAFTS.fullmatch(draft) is None:
        raise InvalidSchema(f"its $schema is {draft!r}; accepted: those of the drafts 4, 6, 7, 2019-09 and 2020-12")
    try:
        jsonschema_rs.meta.validate({"$schema": DRAFT, **tree} if isinstance(tree, dict) else tree, registry=NOTHING_ELSE)
    except jsonschema_rs.ValidationError as error:
        place = "/".join(map(str, error.instance_path))
        raise InvalidSchema(f"{error.message} at /{place}") from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSchema(str(error)) from None


def _compact(tree: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False, sort_keys=sort_keys)
