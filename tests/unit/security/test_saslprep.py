"""SASLprep: the examples of RFC 4013, and what is refused because clients disagree about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp.core import saslprep as scramps

from headrace.model.access.saslprep import check_prepared, prepared


@pytest.mark.parametrize(
    ("text", "result"),
    [("I\u00adX", "IX"), ("user", "user"), ("USER", "USER"), ("\u00aa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b")],
)
def test_the_examples_of_the_standard(text: str, result: str) -> None:
    assert prepared(text) == result


@pytest.mark.parametrize("text", ["\u0007", "\u0627\u0031", "a\u0627", "\u0221", "\ue000", "\ud800", "\u2ff0"])
def test_what_the_standard_prohibits(text: str) -> None:
    with pytest.raises(ValueError):
        prepared(text)


@given(st.text(st.characters(max_codepoint=0x3FF), max_size=6) | st.text(max_size=6))
def test_it_is_what_another_implementation_gives(text: str) -> None:
    try:
        expected = scramps(text)
    except Exception:
        expected = None
    try:
        found = prepared(text)
    except ValueError:
        found = None

    assert found == expected


@pytest.mark.parametrize("text", ["ⅸ", "I\u00adX", "a\u00a0b", "\u0007", "ｕｓｅｒ"])
def test_what_clients_would_send_differently_is_refused_where_it_is_set(text: str) -> None:
    with pytest.raises(ValueError, match="password"):
        check_prepared(text, "password")


def test_what_all_send_alike_is_taken() -> None:
    check_prepared("correct horse, battery; staple=§ é 日本", "password")
