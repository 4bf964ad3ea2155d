"""Rules by which payloads are hidden."""

import pytest

from headrace.client.errors import InvalidArgument
from headrace.console.serving.hiding import HIDDEN, Hiding, without


def test_a_rule_hides_a_topic_a_prefix_and_the_dead_letters_of_both() -> None:
    hiding = Hiding(("customers", "secret-*"))

    assert hiding.hides_all("customers")
    assert hiding.hides_all("customers.dead-letter")
    assert hiding.hides_all("secret-plans")
    assert not hiding.concerns("customers-2")
    assert not Hiding(())


@pytest.mark.parametrize("topic", ["__headrace_delayed", "__headrace_schedules", "__headrace_gateway"])
def test_topics_with_records_of_others_are_hidden_with_any_rule(topic: str) -> None:
    assert Hiding(("orders:/card",)).hides_all(topic)
    assert not Hiding(()).concerns(topic)


def test_a_rule_hides_parts_of_values() -> None:
    hiding = Hiding(("orders:/card/number", "orders:/items/*/price"))
    value = {"card": {"number": "4111", "kind": "visa"}, "items": [{"price": 3, "sku": "A"}]}

    for pointer in hiding.parts("orders"):
        value = without(value, pointer)

    assert not hiding.hides_all("orders")
    assert value == {"card": {"number": HIDDEN, "kind": "visa"}, "items": [{"price": HIDDEN, "sku": "A"}]}


@pytest.mark.parametrize("text", ["", ":/a", "orders:card"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="no rule for hiding"):
        Hiding((text,))
