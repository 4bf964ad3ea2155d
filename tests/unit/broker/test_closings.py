"""Connections that the broker ends: a flood of them is a few lines in the log."""

import pytest

from headrace.broker.network.closings import ADDRESSES_MAX, OTHERS, REASONS_MAX, TOGETHER_SECONDS, Closings

REASON = "Metadata was asked before sign-in"


def test_the_first_of_an_address_is_told_at_once_and_the_others_together(caplog: pytest.LogCaptureFixture) -> None:
    closings = Closings()
    for second in range(50):
        closings.note("10.0.0.1", REASON, second)
        closings.tell(second)
    closings.note("10.0.0.2", REASON, 50)
    closings.tell(TOGETHER_SECONDS)
    closings.tell(2 * TOGETHER_SECONDS)

    assert caplog.messages == [
        f"closed the connection from 10.0.0.1: {REASON}",
        f"closed the connection from 10.0.0.2: {REASON}",
        f"closed 49 more connections from 10.0.0.1 in the last minute, the last one because: {REASON}",
    ]


def test_a_minute_later_it_is_told_at_once_again(caplog: pytest.LogCaptureFixture) -> None:
    closings = Closings()
    for now in (0, TOGETHER_SECONDS):
        closings.note("10.0.0.1", REASON, now)
        closings.tell(now + TOGETHER_SECONDS)

    assert caplog.messages == [f"closed the connection from 10.0.0.1: {REASON}"] * 2


def test_reasons_and_addresses_without_end_are_told_together(caplog: pytest.LogCaptureFixture) -> None:
    closings = Closings()
    for number in range(3 * REASONS_MAX):
        closings.note("10.0.0.1", f"a frame of {number} bytes", 0)

    assert len(caplog.messages) == REASONS_MAX

    for number in range(2 * ADDRESSES_MAX):
        closings.note(f"2001:db8::{number:x}", REASON, 0)

    assert len(caplog.messages) == REASONS_MAX + ADDRESSES_MAX
    assert caplog.messages[-1] == f"closed the connection from {OTHERS}: {REASON}"
