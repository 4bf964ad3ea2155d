"""Protobuf files that follow each other: whether who has the new one can read what was written with the old one."""

from typing import NamedTuple


class Case(NamedTuple):
    what: str
    old: str
    new: str
    compatible: bool


def message(body: str, syntax: str = "proto3") -> str:
    return f'syntax = "{syntax}";\npackage shop;\nmessage Order {{ {body} }}'


ITEM = " message Item { int32 a = 1; }"
OTHER = " message Other { int32 a = 1; }"

CASES = [
    Case("nothing changed", message("int64 id = 1;"), message("int64 id = 1;"), True),
    Case("a field came", message("int64 id = 1;"), message("int64 id = 1; string name = 2;"), True),
    Case("a field went", message("int64 id = 1; string name = 2;"), message("int64 id = 1;"), True),
    Case("a field changed its name", message("int64 id = 1;"), message("int64 number = 1;"), True),
    Case("a field changed within its group", message("int32 id = 1;"), message("uint64 id = 1;"), True),
    Case("a number became a yes or no", message("int32 id = 1;"), message("bool id = 1;"), True),
    Case("an enum became a number", message("E e = 1; enum E { A = 0; }"), message("int32 e = 1;"), True),
    Case("a text became bytes", message("string id = 1;"), message("bytes id = 1;"), True),
    Case("a number became a text", message("int32 id = 1;"), message("string id = 1;"), False),
    Case("a number became a signed one", message("int32 id = 1;"), message("sint32 id = 1;"), False),
    Case("a number became a fixed one", message("int32 id = 1;"), message("fixed32 id = 1;"), False),
    Case("a float became a double", message("float id = 1;"), message("double id = 1;"), False),
    Case("a number became a list", message("int32 id = 1;"), message("repeated int32 id = 1;"), False),
    Case("a text became a list", message("string id = 1;"), message("repeated string id = 1;"), True),
    Case("a number was used again", message("int32 id = 1;"), message(f"Item id = 1; {ITEM}"), False),
    Case("a message of another name", message(f"Item i = 1; {ITEM}"), message(f"Other i = 1; {ITEM} {OTHER}"), False),
    Case(
        "a message inside changed",
        message("Item i = 1; message Item { int32 a = 1; }"),
        message("Item i = 1; message Item { string a = 1; }"),
        False,
    ),
    Case("a message went", message(f"int32 a = 1; {ITEM}"), message("int32 a = 1;"), False),
    Case("a message came", message("int32 a = 1;"), message(f"int32 a = 1; {ITEM}"), True),
    Case("an enum went", message("int32 a = 1; enum E { A = 0; }"), message("int32 a = 1;"), True),
    Case("the package changed", message("int32 a = 1;"), message("int32 a = 1;").replace("shop", "store"), False),
    Case("a map's value changed", message("map<string, int32> m = 1;"), message("map<string, string> m = 1;"), False),
    Case("a map's value was widened", message("map<string, int32> m = 1;"), message("map<string, int64> m = 1;"), True),
    Case("a map became a message", message("map<string, int32> m = 1;"), message(f"repeated Item m = 1; {ITEM}"), False),
    Case("one field went into a oneof", message("int32 a = 1;"), message("oneof o { int32 a = 1; int32 b = 2; }"), True),
    Case(
        "two fields went into a oneof",
        message("int32 a = 1; int32 b = 2;"),
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        False,
    ),
    Case("a field left a oneof", message("oneof o { int32 a = 1; int32 b = 2; }"), message("oneof o { int32 a = 1; }"), False),
    Case("a oneof went as a whole", message("oneof o { int32 a = 1; } int32 c = 3;"), message("int32 c = 3;"), True),
    Case("a oneof was dissolved", message("oneof o { int32 a = 1; int32 b = 2; }"), message("int32 a = 1; int32 b = 2;"), True),
    Case("a field became optional", message("int32 a = 1;"), message("optional int32 a = 1;"), True),
    Case(
        "optional fields stay apart",
        message("optional int32 a = 1; optional int32 b = 2;"),
        message("int32 a = 1; int32 b = 2;"),
        True,
    ),
    Case("an optional field went", message("optional int32 a = 1; int32 b = 2;"), message("int32 b = 2;"), True),
    Case(
        "a required field came",
        message("optional int32 a = 1;", "proto2"),
        message("optional int32 a = 1; required int32 b = 2;", "proto2"),
        False,
    ),
    Case("a required field went", message("required int32 b = 2;", "proto2"), message("optional int32 a = 1;", "proto2"), False),
    Case(
        "a message that contains itself", message("Order next = 1; int32 a = 2;"), message("Order next = 1; int64 a = 2;"), True
    ),
]
