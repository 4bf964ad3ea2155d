"""Keys and values between JSON and bytes."""

import orjson
import pytest

from headrace.gateway.brokers.tails import Shown
from headrace.gateway.records.formats import encoded, rendered, shown
from headrace.gateway.serving.problems import Problem
from headrace.gateway.webhooks.posting import body_of
from headrace.model.identity import TopicPartition
from headrace.records.record import Record


@pytest.mark.parametrize("depth", [10, 199, 245, 250, 254, 300, 1000, 5000])
def test_a_value_that_is_nested_deeply_is_shown_as_it_can_be(depth: int) -> None:
    value = b"[" * depth + b"]" * depth
    record = Shown(TopicPartition("t", 0), Record(0, 0, value, value, ()))

    line = orjson.loads(rendered(record, "auto", "auto"))
    assert line["value_format"] == ("json" if depth < 246 else "text")
    assert shown(value, "json")[1] == ("json" if depth < 246 else "binary")
    for form in ("json", "cloudevents"):
        for batch in (1, 2):
            assert body_of([record], form, batch)[0]


def test_a_value_that_json_cannot_carry_is_refused() -> None:
    for value in (2**70, "\ud800", orjson.loads(b"[" * 300 + b"]" * 300)):
        with pytest.raises(Problem, match="nested too deeply"):
            encoded(value, "json", "value")
