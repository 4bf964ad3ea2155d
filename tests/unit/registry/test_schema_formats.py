"""Reading, writing and judging schemas of the three formats."""

import base64
import json
import socket
import time
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.registry.formats.schema import InvalidSchema, Kept, Named, parse
from tests.unit.registry import json_schema_cases, protobuf_cases

PROTO = """
syntax = "proto3";
package shop.orders;  // a comment
import "google/protobuf/timestamp.proto";
import "money.proto";
option java_package = "com.example";
option (owner) = { name: "ann" since: 3 };
message Order {
  reserved 2, 15, 9 to 11;
  reserved "gone";
  optional string name = 1 [deprecated = true, json_name = "n", (rules).max = 5];
  map<string, Item> items = 3;
  oneof payment { int32 cash = 4; money.Amount card = 5; }
  message Item { repeated sint64 sizes = 1 [packed = false]; }
  enum State { option allow_alias = true; NEW = 0; DONE = 1; OVER = 1 [deprecated = true]; }
  google.protobuf.Timestamp at = 6;
  State state = 7;
}
service Shop { rpc Buy (Order) returns (stream Order) { option deprecated = true; } }
"""
MONEY = Named("money.proto", 'syntax = "proto3"; package money; message Amount { int64 cents = 1; }')


@pytest.mark.parametrize("case", json_schema_cases.CASES, ids=lambda case: case.what)
def test_json_schemas_that_follow_each_other(case: json_schema_cases.Case) -> None:
    old, new = parse("JSON", json.dumps(case.old)), parse("JSON", json.dumps(case.new))

    assert (new.problems_reading(old) == []) is case.compatible


@pytest.mark.parametrize("case", protobuf_cases.CASES, ids=lambda case: case.what)
def test_protobuf_files_that_follow_each_other(case: protobuf_cases.Case) -> None:
    old, new = parse("PROTOBUF", case.old), parse("PROTOBUF", case.new)

    assert (new.problems_reading(old) == []) is case.compatible


def test_a_protobuf_file_is_the_same_as_text_and_as_a_descriptor() -> None:
    from_text = parse("PROTOBUF", PROTO, (MONEY,))
    from_descriptor = parse("PROTOBUF", from_text.formatted("serialized"), (MONEY,))

    assert from_descriptor.canonical == from_text.canonical
    assert parse("PROTOBUF", from_text.canonical, (MONEY,)).canonical == from_text.canonical
    for kept in ('reserved "gone"', "map<string, Order.Item> items = 3", "optional string name = 1", "oneof payment", "(owner)"):
        assert kept in from_text.canonical


def test_the_descriptors_of_generated_code_are_taken() -> None:
    described = FileDescriptorProto()
    Timestamp.DESCRIPTOR.file.CopyToProto(described)

    schema = parse("PROTOBUF", base64.b64encode(described.SerializeToString()).decode())

    assert "message Timestamp {" in schema.canonical


def test_proto2_keeps_what_proto3_does_not_have() -> None:
    text = """
    syntax = "proto2";
    message A {
      required int32 a = 1 [default = 5];
      optional group G = 2 { optional string s = 1 [default = "x\\ny"]; }
      optional E e = 3 [default = B];
      enum E { A1 = 0; B = 1; }
      extensions 100 to max;
    }
    extend A { optional int32 z = 100; }
    """

    schema = parse("PROTOBUF", text)

    assert parse("PROTOBUF", schema.formatted("serialized")).canonical == schema.canonical
    for kept in ("required int32 a = 1 [default = 5]", "group G = 2", 'default = "x\\ny"', "default = B", "extend A"):
        assert kept in schema.canonical


def test_the_order_of_protobuf_fields_is_normalized() -> None:
    one = parse("PROTOBUF", protobuf_cases.message("int32 b = 2; int32 a = 1;"))
    other = parse("PROTOBUF", protobuf_cases.message("int32 a = 1; int32 b = 2;"))

    assert one.canonical != other.canonical
    assert one.normalized() == other.normalized()


def test_avro_is_kept_as_javas_library_writes_it() -> None:
    text = """{"fields": [{"type": {"type": "string"}, "order": "ascending", "name": "a"}], "name": "shop.Order",
               "type": "record", "aliases": ["Old"], "owner": "ann"}"""

    assert parse("AVRO", text).canonical == (
        '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"a","type":"string"}],"owner":"ann","aliases":["Old"]}'
    )
    assert parse("AVRO", '{"type": "int"}').canonical == '"int"'
    assert parse("AVRO", "string").canonical == '"string"'


def test_references_of_avro_are_written_out_when_asked() -> None:
    item = Named("shop.Item", '{"type":"record","name":"Item","namespace":"shop","fields":[{"name":"n","type":"int"}]}')
    text = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"a","type":"Item"},{"name":"b","type":"Item"}]}'

    resolved = parse("AVRO", text, (item,)).formatted("resolved")

    assert resolved.count('"name":"n"') == 1
    assert parse("AVRO", resolved).canonical == resolved


@pytest.mark.parametrize(
    ("schema_type", "text", "why"),
    [
        ("AVRO", "{", "not JSON"),
        pytest.param("AVRO", '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000, "deep", id="deep Avro"),
        ("AVRO", '{"type":"string","doc":"\\ud800"}', "half a character"),
        pytest.param("JSON", '{"items":' * 5000 + "true" + "}" * 5000, "deep", id="deep JSON"),
        ("AVRO", '{"type":"record","name":"A"}', "fields"),
        ("AVRO", '{"type":"record","name":"A","fields":[{"name":"b","type":"Nobody"}]}', "Nobody"),
        ("JSON", "[", "not JSON"),
        ("JSON", "[]", "an object, or true or false"),
        ("JSON", '{"type": "strange"}', "strange"),
        ("JSON", '{"$ref": "#/definitions/nobody"}', "nobody"),
        ("JSON", '{"$ref": "other.json"}', "other.json"),
        ("PROTOBUF", "message {", ""),
        ("PROTOBUF", 'syntax = "proto3"; message A { Nobody n = 1; }', "Nobody"),
        ("PROTOBUF", 'syntax = "proto3"; message A { int32 a = 1; int32 b = 1; }', "1"),
        ("PROTOBUF", 'syntax = "proto3"; import "other.proto"; message A {}', "other.proto"),
        ("PROTOBUF", 'edition = "2023"; message A {}', "edition"),
    ],
)
def test_a_text_that_is_no_schema_is_refused_with_the_reason(schema_type: str, text: str, why: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse(schema_type, text)

    assert why.removeprefix("an object") in str(refused.value)


def test_json_schemas_refer_to_others_by_name_and_by_id() -> None:
    other = Named("money.json", '{"$id": "https://shop.example/money", "type": "integer"}')
    by_name = parse("JSON", '{"type":"object","properties":{"a":{"$ref":"money.json"}}}', (other,))
    by_id = parse("JSON", '{"type":"object","properties":{"a":{"$ref":"https://shop.example/money"}}}', (other,))
    written_out = parse("JSON", '{"type":"object","properties":{"a":{"type":"integer"}}}')

    assert by_name.problems_reading(written_out) == by_id.problems_reading(written_out) == []
    assert written_out.problems_reading(by_name) == []


def test_schemas_that_stay_read_are_bounded_by_their_size() -> None:
    kept, schema = Kept(250), parse("AVRO", "int")
    keys = [("AVRO", f"{number}" * 100, ()) for number in range(4)]

    for key in keys:
        kept.put(key, schema)

    assert kept.characters == 200
    assert [kept.get(key) for key in keys] == [None, None, schema, schema]


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_no_address_in_a_json_schema_is_fetched(scheme: str, tmp_path: Path) -> None:
    """A schema is a stranger's text: it must not make the registry read this machine's files, or ask machines around it."""
    meta = tmp_path / "meta.json"
    meta.write_text(json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": meta.as_uri()}))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        address = meta.as_uri() if scheme == "file" else f"http://127.0.0.1:{listener.getsockname()[1]}/meta"
        with pytest.raises(InvalidSchema, match="2020-12"):
            parse("JSON", json.dumps({"$schema": address, "type": "object"}))

        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_part_that_a_validator_cannot_read_alone_is_a_problem_and_no_failure() -> None:
    draft = "https://json-schema.org/draft/2020-12/schema"
    reader = parse("JSON", json.dumps({"$schema": draft, "$dynamicRef": "http://127.0.0.1:9/x", "type": "integer"}))

    assert reader.problems_reading(parse("JSON", '{"enum": ["a"]}'))


def test_a_pattern_that_never_ends_holds_nobody_up() -> None:
    reader = parse("JSON", json.dumps({"patternProperties": {"(a+)+$": {"type": "string"}}}))
    writer = parse("JSON", json.dumps({"properties": {"a" * 26 + "b": {"type": "string"}}}))
    began = time.process_time()

    reader.problems_reading(writer)

    assert time.process_time() - began < 3


@pytest.mark.slow
def test_json_schemas_whose_parts_are_used_over_and_over_are_refused_before_long() -> None:
    def twice(levels: int, last: dict[str, object]) -> str:
        parts = {
            f"p{level}": {"properties": {name: {"$ref": f"#/definitions/p{level + 1}"} for name in "ab"}}
            for level in range(levels)
        }
        return json.dumps({"$ref": "#/definitions/p0", "definitions": {**parts, f"p{levels}": last}})

    old, new = parse("JSON", twice(18, {"maxLength": 5})), parse("JSON", twice(18, {"maxLength": 4}))

    assert new.problems_reading(old) == [
        "at /: there is more to compare than 50,000 parts; a part that is used in many places counts in each"
    ]


NAMES = st.sampled_from(("a", "b", "c"))
LEAVES = st.sampled_from(({"type": "string"}, {"type": "integer"}, {"type": "number"}, {"enum": ["x", 1]}, {}, {"minimum": 3}))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda properties, required, extra: {
                "type": "object",
                "properties": properties,
                "required": sorted(required),
                "additionalProperties": extra,
            },
            st.dictionaries(NAMES, inner, max_size=2),
            st.sets(NAMES, max_size=1),
            st.booleans(),
        ),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda branches: {"allOf": branches}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=5,
)
VALUES = st.recursive(
    st.sampled_from(("x", "y", 1, 5, 2.5, None, True)),
    lambda inner: st.one_of(st.dictionaries(NAMES, inner, max_size=3), st.lists(inner, max_size=2)),
    max_leaves=5,
)


@settings(max_examples=150)
@given(TREES, TREES, st.lists(VALUES, max_size=8))
def test_what_an_old_json_schema_lets_pass_a_compatible_new_one_lets_pass(old: dict, new: dict, values: list) -> None:  # type: ignore[type-arg]
    """Held against the validator itself: a wrong "compatible" would let a document through that the new schema refuses."""
    import jsonschema_rs

    if parse("JSON", json.dumps(new)).problems_reading(parse("JSON", json.dumps(old))) == []:
        was, is_ = jsonschema_rs.validator_for(old), jsonschema_rs.validator_for(new)
        assert [each for each in values if was.is_valid(each) and not is_.is_valid(each)] == []


@given(TREES)
def test_every_json_schema_can_follow_itself(tree: dict) -> None:  # type: ignore[type-arg]
    schema = parse("JSON", json.dumps(tree))

    assert schema.problems_reading(parse("JSON", json.dumps(tree, sort_keys=True, indent=1))) == []


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_avro_records_with_thousands_of_fields_are_compared_in_a_moment(kept: bool) -> None:
    def record(prefix: str) -> str:
        fields = [{"name": f"{prefix}{index}", "type": ["null", "string"]} for index in range(3000)]
        return json.dumps({"type": "record", "name": "R", "fields": fields})

    old, new = parse("AVRO", record("a")), parse("AVRO", record("a" if kept else "b"))
    began = time.process_time()
    found = new.problems_reading(old)

    assert (found == []) is kept
    assert time.process_time() - began < 1  # Apache's own takes ten times as long


@pytest.mark.slow
def test_avro_unions_that_would_take_hours_to_compare_are_not() -> None:
    union = [{"type": "record", "name": f"R{index}", "fields": [{"name": "x", "type": "int"}]} for index in range(600)]
    old = parse("AVRO", json.dumps(union))
    new = parse("AVRO", json.dumps(list(reversed(union))))

    assert new.problems_reading(old) == ["it has too many types in unions to be held against another"]
