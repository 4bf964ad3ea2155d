"""JSON Schemas that follow each other: whether who has the new one can read what was written with the old one."""

from typing import Any, NamedTuple

STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def open_(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


class Case(NamedTuple):
    what: str
    old: Any
    new: Any
    compatible: bool


CASES = [
    Case("nothing changed", open_(a=STRING), open_(a=STRING), True),
    Case("a title came", open_(a=STRING), {**open_(a=STRING), "title": "Order"}, True),
    Case("a type was widened", INTEGER, NUMBER, True),
    Case("a type was narrowed", NUMBER, INTEGER, False),
    Case("a type was changed", STRING, NUMBER, False),
    Case("another type is accepted, too", STRING, {"type": ["string", "null"]}, True),
    Case("a type is not accepted any more", {"type": ["string", "null"]}, STRING, False),
    Case("everything is accepted", STRING, {}, True),
    Case("everything was accepted", {}, STRING, False),
    Case("nothing was ever written", False, STRING, True),
    Case("a property came to a closed object", closed(a=STRING), closed(a=STRING, b=NUMBER), True),
    Case("a property went from a closed object", closed(a=STRING, b=NUMBER), closed(a=STRING), False),
    Case("a property came to an open object", open_(a=STRING), open_(a=STRING, b=NUMBER), False),
    Case("a property of any kind came to an open object", open_(a=STRING), open_(a=STRING, b={}), True),
    Case("a property went from an open object", open_(a=STRING, b=NUMBER), open_(a=STRING), True),
    Case("an object was opened", closed(a=STRING), open_(a=STRING), True),
    Case("an object was closed", open_(a=STRING), closed(a=STRING), False),
    Case("a property changed its type", open_(a=STRING), open_(a=NUMBER), False),
    Case("a property is required now", closed(a=STRING), {**closed(a=STRING), "required": ["a"]}, False),
    Case("a property is not required any more", {**open_(a=STRING), "required": ["a"]}, open_(a=STRING), True),
    Case(
        "a property with a default is required now",
        closed(a=STRING),
        {**closed(a={"type": "string", "default": "x"}), "required": ["a"]},
        True,
    ),
    Case(
        "a new property is covered by what was open",
        {**open_(a=STRING), "additionalProperties": STRING},
        {**open_(a=STRING, b=STRING), "additionalProperties": STRING},
        True,
    ),
    Case(
        "a new property differs from what was open",
        {**open_(a=STRING), "additionalProperties": STRING},
        {**open_(a=STRING, b=NUMBER), "additionalProperties": STRING},
        False,
    ),
    Case(
        "a property is covered by a pattern",
        closed(a_x=STRING),
        {"type": "object", "patternProperties": {"^a_": STRING}, "additionalProperties": False},
        True,
    ),
    Case("a value joined the list", {"enum": ["a"]}, {"enum": ["a", "b"]}, True),
    Case("a value left the list", {"enum": ["a", "b"]}, {"enum": ["a"]}, False),
    Case("a list became free", {"enum": ["a", "b"]}, STRING, True),
    Case("a list has a value that does not fit", {"enum": ["a", 1]}, STRING, False),
    Case("what was free became a list", STRING, {"enum": ["a"]}, False),
    Case("a constant stayed", {"const": 1}, {"enum": [1, 2]}, True),
    Case("a minimum fell", {**NUMBER, "minimum": 5}, {**NUMBER, "minimum": 3}, True),
    Case("a minimum rose", {**NUMBER, "minimum": 3}, {**NUMBER, "minimum": 5}, False),
    Case("a minimum of nought came", NUMBER, {**NUMBER, "minimum": 0}, False),
    Case("a maximum came", NUMBER, {**NUMBER, "maximum": 9}, False),
    Case("an exclusive maximum fell", {**NUMBER, "exclusiveMaximum": 9}, {**NUMBER, "exclusiveMaximum": 8}, False),
    Case("multiples of a divisor", {**NUMBER, "multipleOf": 10}, {**NUMBER, "multipleOf": 5}, True),
    Case("multiples of another number", {**NUMBER, "multipleOf": 10}, {**NUMBER, "multipleOf": 3}, False),
    Case("texts may be longer", {**STRING, "maxLength": 3}, {**STRING, "maxLength": 9}, True),
    Case("texts must be longer", {**STRING, "minLength": 3}, {**STRING, "minLength": 9}, False),
    Case("a pattern went", {**STRING, "pattern": "^a"}, STRING, True),
    Case("a pattern changed", {**STRING, "pattern": "^a"}, {**STRING, "pattern": "^b"}, False),
    Case("items changed their type", {"type": "array", "items": STRING}, {"type": "array", "items": NUMBER}, False),
    Case("items may be anything", {"type": "array", "items": STRING}, {"type": "array"}, True),
    Case("items must be unique", {"type": "array"}, {"type": "array", "uniqueItems": True}, False),
    Case("fewer items are accepted", {"type": "array", "maxItems": 9}, {"type": "array", "maxItems": 3}, False),
    Case(
        "an item came to a closed tuple",
        {"type": "array", "items": [STRING], "additionalItems": False},
        {"type": "array", "items": [STRING, NUMBER], "additionalItems": False},
        True,
    ),
    Case(
        "an item came to an open tuple",
        {"type": "array", "items": [STRING]},
        {"type": "array", "items": [STRING, NUMBER]},
        False,
    ),
    Case("a branch joined a union", {"oneOf": [STRING]}, {"oneOf": [STRING, NUMBER]}, True),
    Case("a branch left a union", {"oneOf": [STRING, NUMBER]}, {"oneOf": [STRING]}, False),
    Case("a type became one of a union", STRING, {"anyOf": [NUMBER, STRING]}, True),
    Case("a union became a type of its own", {"anyOf": [INTEGER, NUMBER]}, NUMBER, True),
    Case("one more thing must hold", {"allOf": [{"minimum": 1}]}, {"allOf": [{"minimum": 1}, {"maximum": 5}]}, False),
    Case("one thing less must hold", {"allOf": [{"minimum": 1}, {"maximum": 5}]}, {"allOf": [{"maximum": 5}]}, True),
    Case("less is excluded", {"not": {"type": ["string", "null"]}}, {"not": STRING}, True),
    Case("more is excluded", {"not": STRING}, {"not": {"type": ["string", "null"]}}, False),
    Case(
        "a type moved behind a reference",
        open_(a=STRING),
        {**open_(a={"$ref": "#/definitions/text"}), "definitions": {"text": STRING}},
        True,
    ),
    Case(
        "a type behind a reference changed",
        {**open_(a={"$ref": "#/definitions/x"}), "definitions": {"x": STRING}},
        {**open_(a={"$ref": "#/definitions/x"}), "definitions": {"x": NUMBER}},
        False,
    ),
    Case(
        "a schema that contains itself",
        {**closed(next={"$ref": "#"}, value=INTEGER)},
        {**closed(next={"$ref": "#"}, value=NUMBER)},
        True,
    ),
    Case(
        "a schema that contains itself, and narrows",
        {**closed(next={"$ref": "#"}, value=NUMBER)},
        {**closed(next={"$ref": "#"}, value=INTEGER)},
        False,
    ),
    Case("a condition came", open_(), {**open_(), "if": {"required": ["a"]}, "then": {"required": ["b"]}}, False),
    Case("one property demands another now", open_(), {**open_(), "dependentRequired": {"a": ["b"]}}, False),
]
