"""Principals: what is one, how it is read and printed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.access.principals import (
    ANONYMOUS,
    NAME_CHARACTERS_MAX,
    Principal,
    PrincipalError,
    Subject,
    group,
    parse_principal,
    parse_super_users,
    user,
)

SEEN = st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))
NAMES = st.text(SEEN, min_size=1, max_size=40)


@given(st.sampled_from(["User", "Group"]), NAMES)
def test_what_is_printed_for_the_wire_is_read_back_as_the_same_principal(kind: str, name: str) -> None:
    principal = Principal(kind, name)

    assert parse_principal(str(principal)) == principal


@given(NAMES, NAMES)
def test_two_principals_are_never_shown_alike(one: str, other: str) -> None:
    assert (Principal("User", one).shown == Principal("User", other).shown) == (one == other)


@given(NAMES)
def test_what_is_shown_is_one_line_of_ascii_that_cannot_end_its_quotes(name: str) -> None:
    shown = Principal("User", name).shown
    text = shown.removeprefix("User:")

    assert shown.isascii()
    assert shown.isprintable()
    assert text == name or json.loads(text) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ann", "User:ann"),
        ("CN=ann,OU=ops,O=Acme", "User:CN=ann,OU=ops,O=Acme"),
        ("ann b", 'User:"ann b"'),
        ('a"b', 'User:"a\\"b"'),
        ("a:b", 'User:"a:b"'),
        ("а" + "nn", 'User:"\\u0430nn"'),  # a Cyrillic letter in the place of a Latin one
        ("é", 'User:"\\u00e9"'),
        ("e\u0301", 'User:"e\\u0301"'),
    ],
)
def test_a_name_that_could_pass_for_another_is_shown_with_escapes(name: str, shown: str) -> None:
    assert user(name).shown == shown


def test_a_name_may_hold_colons_and_quotes() -> None:
    assert parse_principal("User:a:b\"c'") == Principal("User", "a:b\"c'")


@pytest.mark.parametrize(
    "text", ["", "ann", "User", "User:", ":ann", "user:ann", "USER:ann", " User:ann", "Role:ann", "User\n:ann", "Us\u0435r:ann"]
)
def test_what_is_no_principal_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(PrincipalError):
        parse_principal(text)


@pytest.mark.parametrize("character", ["\n", "\r", "\0", "\t", "\x7f", "\x85", "\u200b", "\u200d", "\u202e", "\u2028", "\ufeff"])
def test_what_cannot_be_seen_is_in_no_name(character: str) -> None:
    with pytest.raises(PrincipalError, match=f"U\\+{ord(character):04X}"):
        user(f"ann{character}")


def test_a_name_has_a_limit() -> None:
    assert user("x" * NAME_CHARACTERS_MAX)

    with pytest.raises(PrincipalError, match="1025"):
        user("x" * (NAME_CHARACTERS_MAX + 1))


def test_a_refusal_does_not_repeat_what_could_break_its_line() -> None:
    with pytest.raises(PrincipalError) as refused:
        parse_principal("nobody\nUser:root may do everything")

    assert "\n" not in str(refused.value)


def test_super_users_stand_between_semicolons_because_names_of_certificates_hold_commas() -> None:
    assert parse_super_users("User:CN=a,O=b; Group:admins ;;") == {user("CN=a,O=b"), group("admins")}
    assert parse_super_users("") == frozenset()


def test_a_super_user_that_is_no_principal_is_refused() -> None:
    with pytest.raises(PrincipalError):
        parse_super_users("User:ann;bob")


def test_subjects_are_equal_by_value() -> None:
    one, same = Subject(user("ann"), [group("ops")], "10.0.0.1"), Subject(user("ann"), [group("ops")], "10.0.0.1")

    assert one == same
    assert hash(one) == hash(same)
    assert one != Subject(user("ann"), [], "10.0.0.1")
    assert one != Subject(user("ann"), [group("ops")], "10.0.0.2")
    assert one != "User:ann"
    assert Subject().principal == ANONYMOUS
    assert repr(one) == "Subject(User:ann, groups=[Group:ops], '10.0.0.1')"
