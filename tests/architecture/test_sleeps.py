"""Tests wait for what they await, and do not sleep.  Where time itself is the subject, it says so here, with the reason."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import stays, stays_async, until, until_async

TESTS = Path(__file__).parents[1]

# Their clock is the simulation's: a sleep there takes no time, and is what moves the clock.
SIMULATED_TIME = {
    "integration/test_transactions_crash_everywhere.py",
    "integration/transaction_session.py",
    "simulation",
    "support/simulated.py",
}

SLOW = "somebody's code that takes longer than the limits that are tested"
SLOW_DISK = "a disk that is slow"
HEARTBEAT = "measures how long the loop was held up"
PACE = "the pace at which a client sends is what the broker judges"
AWAY = "a broker that stays away for longer than clients like"

ALLOWED = {
    "cluster/test_alerts.py: keep_writing": "producers that write all the time, at a pace",
    "compat/test_transactions_exactly_once.py: wreak_havoc": "a kill comes at a random moment",
    "integration/queue_worker.py: main": SLOW,
    "integration/test_audit_unavailable.py: end": "the end comes amid a write that gets no answer",
    "integration/test_bounded_memory.py: test_a_trickle_is_cut_and_what_is_sent_fast_enough_is_not": PACE,
    "integration/test_degraded.py: sync": SLOW_DISK,
    "integration/test_sdk_async.py: handle": SLOW,
    "integration/test_sdk_async.py: heartbeat": HEARTBEAT,
    "integration/test_sdk_async.py: main": SLOW,
    "integration/test_sdk_bad_use.py: test_ctrl_c_ends_a_program_within_seconds": "it comes amid the work",
    "integration/test_sdk_groups.py: test_a_record_that_takes_longer_than_the_poll_interval_does_not_cost_the_membership": SLOW,
    "integration/test_sdk_groups.py: test_reading_goes_on_without_a_gap_after_a_long_pause": SLOW,
    "integration/test_sdk_push.py: handle": SLOW,
    "integration/test_sdk_transactions.py: restart": AWAY,
    "integration/test_settings_have_effects.py: is_written_behind": PACE,
    "integration/test_slow_disk.py: _watch": HEARTBEAT,
    "integration/test_token_keys.py: serve": "somebody who sends one piece, and later another",
    "spark/exactly_once_job.py: slowly": SLOW,
    "spark/files_job.py: move": SLOW,
    "spark/files_job.py: slowly": SLOW,
    "spark/test_spark_torture.py: test_a_broker_that_is_away_for_half_a_minute_costs_no_row": AWAY,
    "unit/broker/test_flushing.py: sync": SLOW_DISK,
    "unit/broker/tiering/test_remote_reader.py: read": "an object store that takes its time",
    "unit/console/test_console_sessions.py: watch": "somebody who only watches",
    "unit/metadata/test_etcd.py: pass_on": "a member that answers late",
}


def test_no_test_sleeps_where_it_can_wait_for_what_it_awaits() -> None:
    found = {place for path in modules() for place in sleeps(path)}

    assert found - ALLOWED.keys() == set(), "wait with tests.support.waiting"
    assert ALLOWED.keys() - found == set(), "these sleep no more"


def modules() -> list[Path]:
    files = (path for path in sorted(TESTS.rglob("*.py")) if path != TESTS / "support" / "waiting.py")
    return [path for path in files if not any(path.is_relative_to(TESTS / place) for place in SIMULATED_TIME)]


def sleeps(path: Path) -> Iterator[str]:
    """Each function that sleeps, by its file and name."""
    name = path.relative_to(TESTS).as_posix()
    yield from (f"{name}: {function}" for function in within(ast.parse(path.read_text()), "the module"))


def within(node: ast.AST, function: str) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
    if isinstance(node, ast.Call) and is_sleep(node):
        yield function
    for child in ast.iter_child_nodes(node):
        yield from within(child, function)


def is_sleep(call: ast.Call) -> bool:
    """Whether it takes time: `asyncio.sleep(0)` only lets others go first."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return called == "sleep" and not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)


def test_a_wait_in_vain_says_what_was_awaited() -> None:
    with pytest.raises(AssertionError, match=r"^not within 0\.01 s: a reply$"):
        until(lambda: False, "a reply", 0.01)
    with pytest.raises(AssertionError, match=r"^not within 0\.01 s: .*until_async.lambda: False"):
        asyncio.run(until_async(lambda: False, seconds=0.01))
    with pytest.raises(AssertionError, match=r"^no longer: silence$"):
        stays(lambda: False, 0.01, lambda: "silence")


def test_what_is_asked_on_a_loop_may_be_a_coroutine() -> None:
    answers = iter(["", "yes"])

    async def ask() -> str:
        return next(answers, "yes")

    assert asyncio.run(until_async(ask)) == "yes"
    asyncio.run(stays_async(ask, 0.01))
