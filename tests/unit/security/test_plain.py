"""SASL PLAIN."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.access.principals import user
from headrace.security.authentication.exchange import MESSAGE_BYTES_MAX, Authenticated, Refused
from headrace.security.authentication.plain import PlainExchange


def exchange() -> PlainExchange:
    return PlainExchange(lambda name, password: password == f"{name}'s")


@pytest.mark.parametrize(("message", "name"), [("\0ann\0ann's", "ann"), ("ann\0ann\0ann's", "ann"), ("\0Ünï\0Ünï's", "Ünï")])
def test_who_knows_the_password_is_let_in(message: str, name: str) -> None:
    assert exchange().respond(message.encode()) == Authenticated(principal=user(name))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"ann",
        b"\0ann",
        b"\0\0",
        b"\0ann\0",
        b"\0\0ann's",
        b"\0ann\0wrong",
        b"\0nobody\0wrong",
        b"bob\0ann\0ann's",
        b"\0ann\0ann's\0",
        b"\0ann\0ann's\0more",
        b"\0\xff\0x",
        b"\0ann\n\0ann\n's",
        b"\0" + b"a" * MESSAGE_BYTES_MAX + b"\0x",
    ],
)
def test_everything_else_is_refused(message: bytes) -> None:
    assert isinstance(exchange().respond(message), Refused)


def test_a_refusal_does_not_say_which_half_was_wrong_nor_repeats_a_password() -> None:
    refused = [exchange().respond(message) for message in (b"\0ann\0s3cret", b"\0nobody\0s3cret")]

    assert len({(each.message, each.reason) for each in refused if isinstance(each, Refused)}) == 1
    assert [each.claimed for each in refused if isinstance(each, Refused)] == ["ann", "nobody"]
    assert "s3cret" not in str(refused)


def test_a_message_cut_off_at_every_byte_is_refused() -> None:
    whole = b"\0ann\0ann's"

    for length in range(len(whole)):
        assert isinstance(exchange().respond(whole[:length]), Refused)


def test_there_is_one_try() -> None:
    server = exchange()
    assert isinstance(server.respond(b"\0ann\0wrong"), Refused)

    assert isinstance(server.respond(b"\0ann\0ann's"), Refused)


@given(st.binary(max_size=100))
def test_whatever_arrives_is_answered(message: bytes) -> None:
    assert isinstance(exchange().respond(message), Authenticated | Refused)
