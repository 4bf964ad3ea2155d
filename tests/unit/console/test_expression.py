"""The language in which messages are picked."""

import pytest

from headrace.console.messages.expression import read_expression
from headrace.gateway.serving.problems import Problem

RECORD = {
    "key": "ann",
    "value": {"total": 12.5, "items": [{"sku": "A-1"}, {"sku": "B-2"}], "paid": True, "note": None, "tags": ["big", "web"]},
    "header": {"source": "web", "trace.id": "7"},
    "partition": 2,
    "offset": 41,
    "timestamp": 1000,
}


@pytest.mark.parametrize(
    "text",
    [
        "value.total > 10",
        "value.total >= 12.5 and value.total <= 12.5",
        'key = "ann"',
        "key = ann",
        "key != bob",
        "value.items[1].sku = B-2",
        "value.items contains B-2",
        "value.tags contains big",
        "value.paid = true",
        "value.note = null",
        "header.source = web and partition = 2",
        "header.trace.id = 7",
        "key = bob or offset > 40",
        "not key = bob",
        "not (key = bob or key = eve)",
        "value contains SKU",
        "value.total exists and not value.missing exists",
        "key = bob and key = eve or offset = 41",
    ],
)
def test_a_condition_holds_where_the_record_is_so(text: str) -> None:
    assert read_expression(text)(RECORD)


@pytest.mark.parametrize(
    "text",
    [
        "value.total > 20",
        "value.missing = 1",
        "value.missing != 1",
        "key > 5",
        "value.items[9].sku = x",
        "not key = ann",
        "offset < 3",
    ],
)
def test_a_condition_does_not_hold_where_it_is_otherwise_or_not_there(text: str) -> None:
    assert not read_expression(text)(RECORD)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("value.total", "it ends where there should be one of"),
        ("value.total >", "it ends where there should be something"),
        ("price > 3", "'price' is no field"),
        ("key like ann", "'like' is none of"),
        ("(key = ann", "a ) is missing"),
        ("key = ann key = bob", "'key' is not expected"),
        ('key = "ann', "cannot be read"),
        ("not " * 60 + "key = ann", "nested too deeply"),
        ("key = " + "a" * 1000, "more than 1000 characters"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(Problem, match="cannot be understood") as refused:
        read_expression(text)

    assert said in refused.value.detail
