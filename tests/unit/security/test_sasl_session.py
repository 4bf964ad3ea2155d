"""Signing in on a connection: order, expiry, signing in again."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.access.principals import Principal, user
from headrace.model.errors import ErrorCode
from headrace.security.authentication.exchange import Authenticated, Challenge, Exchange, RefusalError
from headrace.security.authentication.failures import (
    ADDRESSES_MAX,
    CROWD_WAIT_S_MAX,
    DELAY_S_MAX,
    FREE,
    SPACING_S,
    WAIT_S_MAX,
    FailedSignIns,
)
from headrace.security.authentication.session import SaslSession, State


class TwoSteps(Exchange):
    """`ann` or `ann@5000`, which expires; then `yes`."""

    def __init__(self) -> None:
        super().__init__("TWO")
        self.name: str | None = None

    def _step(self, message: bytes) -> Challenge | Authenticated:
        if self.name is None:
            self.name = message.decode(errors="replace")
            return Challenge(b"sure?")
        if message != b"yes":
            raise RefusalError("not sure", "no")
        name, _, expiry = self.name.partition("@")
        return Authenticated(principal=Principal("User", name), expires_at_ms=int(expiry) if expiry else None, reply=b"in")


def session(lifetime_ms: int = 0) -> SaslSession:
    return SaslSession({"TWO": TwoSteps, "OTHER": TwoSteps}, lifetime_ms)


def sign_in(connection: SaslSession, name: bytes = b"ann", now_ms: int = 0, mechanism: str = "TWO") -> object:
    assert connection.on_handshake(mechanism, 1, now_ms).error_code is ErrorCode.NONE
    assert connection.on_token(name, now_ms).auth_bytes == b"sure?"
    return connection.on_token(b"yes", now_ms)


def test_a_handshake_then_tokens_sign_a_connection_in() -> None:
    connection = session()
    assert not connection.may_ask(0)

    handshake = connection.on_handshake("TWO", 1, 0)
    assert handshake.mechanisms == ("TWO", "OTHER")
    assert connection.on_token(b"ann", 0).auth_bytes == b"sure?"
    assert not connection.may_ask(0)
    done = connection.on_token(b"yes", 0)

    assert (done.error_code, done.auth_bytes, done.session_lifetime_ms) == (ErrorCode.NONE, b"in", 0)
    assert connection.principal == user("ann")
    assert connection.may_ask(10**12)
    assert not connection.tokens_are_bare


def test_after_the_oldest_handshake_tokens_are_bare() -> None:
    connection = session()
    connection.on_handshake("TWO", 0, 0)

    assert connection.tokens_are_bare


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    connection = session()

    reply = connection.on_handshake("GSSAPI", 1, 0)

    assert reply.error_code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert reply.mechanisms == ("TWO", "OTHER")
    assert connection.state is State.ENDED


def test_a_token_before_the_handshake_is_out_of_order() -> None:
    connection = session()

    assert connection.on_token(b"ann", 0).error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert connection.on_handshake("TWO", 1, 0).error_code is ErrorCode.ILLEGAL_SASL_STATE


def test_a_second_handshake_before_the_end_is_out_of_order() -> None:
    connection = session()
    connection.on_handshake("TWO", 1, 0)

    assert connection.on_handshake("TWO", 1, 0).error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert connection.on_token(b"ann", 0).error_code is ErrorCode.ILLEGAL_SASL_STATE


def test_a_refusal_ends_the_connection() -> None:
    connection = session()
    connection.on_handshake("TWO", 1, 0)
    connection.on_token(b"ann", 0)

    reply = connection.on_token(b"no", 0)

    assert (reply.error_code, reply.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, "no")
    assert reply.refused is not None
    assert reply.refused.reason == "not sure"
    assert connection.state is State.ENDED
    assert not connection.may_ask(0)
    assert connection.on_token(b"yes", 0).error_code is ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    ("lifetime_ms", "expiry", "told"),
    [(0, "", 0), (3000, "", 3000), (0, "@6000", 5000), (3000, "@6000", 3000), (9000, "@6000", 5000)],
)
def test_a_session_lasts_as_long_as_the_credentials_and_no_longer_than_it_may(lifetime_ms: int, expiry: str, told: int) -> None:
    connection = session(lifetime_ms)

    reply = sign_in(connection, f"ann{expiry}".encode(), now_ms=1000)

    assert reply.session_lifetime_ms == told  # type: ignore[attr-defined]
    assert connection.may_ask(1000 + told - 1) or not told
    assert connection.may_ask(1000 + told) == (not told)


def test_credentials_that_have_expired_let_nobody_in() -> None:
    reply = sign_in(session(), b"ann@1000", now_ms=1000)

    assert reply.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED  # type: ignore[attr-defined]


def test_who_signs_in_again_gets_another_lifetime() -> None:
    connection = session(3000)
    sign_in(connection, now_ms=0)
    assert not connection.may_ask(3000)

    sign_in(connection, now_ms=3500)

    assert connection.may_ask(6499)
    assert not connection.may_ask(6500)
    assert connection.principal == user("ann")


def test_while_somebody_signs_in_again_nothing_else_is_answered() -> None:
    connection = session(3000)
    sign_in(connection)

    connection.on_handshake("TWO", 1, 2000)

    assert not connection.may_ask(2000)
    assert connection.principal == user("ann")


def test_nobody_becomes_somebody_else() -> None:
    connection = session()
    sign_in(connection)

    reply = sign_in(connection, b"bob", now_ms=5000)

    assert reply.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED  # type: ignore[attr-defined]
    assert connection.principal is None
    assert connection.state is State.ENDED


def test_nobody_changes_the_mechanism() -> None:
    connection = session()
    sign_in(connection)

    assert connection.on_handshake("OTHER", 1, 5000).error_code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_signing_in_again_at_once_is_out_of_order() -> None:
    connection = session()
    sign_in(connection)

    assert connection.on_handshake("TWO", 1, 999).error_code is ErrorCode.ILLEGAL_SASL_STATE


def test_the_oldest_handshake_does_not_sign_in_again() -> None:
    connection = session()
    sign_in(connection)

    assert connection.on_handshake("TWO", 0, 5000).error_code is ErrorCode.ILLEGAL_SASL_STATE


@given(
    st.lists(
        st.tuples(st.just("handshake"), st.sampled_from(["TWO", "OTHER", "X"]), st.integers(0, 1))
        | st.tuples(st.just("token"), st.sampled_from([b"ann", b"yes", b"", b"\xff"]), st.just(0)),
        max_size=12,
    )
)
def test_whoever_may_ask_has_signed_in_by_handshake_name_and_yes(steps: list[tuple[str, object, int]]) -> None:
    connection, clock, history = session(), itertools.count(0, 2000), []

    for kind, what, version in steps:
        if kind == "handshake":
            reply = connection.on_handshake(str(what), version, next(clock))
            history.append(what if reply.error_code is ErrorCode.NONE else "refused")
        else:
            assert isinstance(what, bytes)
            connection.on_token(what, next(clock))
            history.append(what)
        if connection.may_ask(0):
            assert history[-1] == b"yes"
            assert history[-3] in ("TWO", "OTHER")


def test_failures_cost_time_and_more_of_them_more() -> None:
    failed = FailedSignIns()

    delays = [failed.on_failure("10.0.0.1", 0.0) for _ in range(20)]

    assert delays[:5] == [0.1] * 5
    assert delays == sorted(delays)
    assert delays[-1] == DELAY_S_MAX
    assert failed.on_failure("10.0.0.2", 0.0) == 0.1


def test_failures_are_forgotten_after_a_quiet_minute() -> None:
    failed = FailedSignIns()
    for _ in range(10):
        failed.on_failure("b", 0.0)

    assert failed.recent("b", 59.0) == 10
    assert failed.on_failure("b", 60.0) == 0.1


def test_addresses_that_are_remembered_have_a_bound() -> None:
    failed = FailedSignIns()

    for number in range(ADDRESSES_MAX + 10):
        failed.on_failure(str(number), 0.0)

    assert len(failed._addresses) == ADDRESSES_MAX
    assert failed.recent("9", 0.0) == 0
    assert failed.recent("10", 0.0) == 1


def test_whoever_comes_from_where_many_failed_waits_a_short_time_however_many_come_at_once() -> None:
    failed = FailedSignIns()
    for _ in range(20):
        failed.on_failure("10.0.0.1", 0)

    waits = [failed.wait("10.0.0.1", 1) for _ in range(1000)]

    assert waits[:2] == [0, WAIT_S_MAX]
    assert waits[2:5] == pytest.approx([WAIT_S_MAX + SPACING_S, WAIT_S_MAX + 2 * SPACING_S, WAIT_S_MAX + 3 * SPACING_S])
    assert max(waits) == CROWD_WAIT_S_MAX
    assert failed.wait("10.0.0.1", 1 + CROWD_WAIT_S_MAX) == 0, "it is over as soon as they stop"
    assert failed.wait("10.0.0.2", 1) == 0
    assert failed.wait("10.0.0.1", 100) == 0


def test_addresses_of_one_block_of_ipv6_count_as_one() -> None:
    failed = FailedSignIns()
    for number in range(10):
        failed.on_failure(f"2001:db8::{number}", 0)

    assert failed.recent("2001:db8::ffff", 0) == 10
    assert failed.recent("2001:db8:0:1::1", 0) == 0
    failed.on_failure("::ffff:10.0.0.1", 0)
    assert failed.recent("10.0.0.1", 0) == 1


def test_a_few_failures_let_nobody_wait_beforehand() -> None:
    failed = FailedSignIns()
    for _ in range(FREE):
        failed.on_failure("10.0.0.1", 0)

    assert [failed.wait("10.0.0.1", 1) for _ in range(10)] == [0] * 10
