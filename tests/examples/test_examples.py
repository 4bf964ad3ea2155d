"""Every example runs, and says what it promises."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(bootstrap: str, name: str, *arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        env={**os.environ, "HEADRACE_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_every_order_is_paid_once_in_every_run(bootstrap: str) -> None:
    for _ in range(2):
        assert "10 payments for the 10 orders of this run, 0 of them twice" in run(bootstrap, "orders_and_payments.py")


def test_every_group_gets_everything(bootstrap: str) -> None:
    said = run(bootstrap, "fan_out.py").splitlines()

    expected = [
        f"{group} {name}" for group in ("mail: welcomes", "search: indexes", "audit: notes") for name in ("ann", "bob", "cid")
    ]
    assert sorted(said) == sorted(expected)


def test_yesterday_is_read_again(bootstrap: str) -> None:
    said = run(bootstrap, "replay_from_yesterday.py")

    assert "since yesterday: [24, 18, 12, 6]" in said or "since yesterday: [18, 12, 6]" in said
    assert "all of it: 8 records" in said
    assert "again from 13 hours ago: [12, 6]" in said


def test_money_is_moved_once_over_several_runs(bootstrap: str, tmp_path: Path) -> None:
    file = str(tmp_path / "bank")

    assert "balances {'ann': 90, 'bob': 110}, together 200" in run(bootstrap, "wallet.py", file)
    assert "4 transfers, balances {'ann': 80, 'bob': 120}, together 200" in run(bootstrap, "wallet.py", file)


def test_what_fails_is_tried_parked_and_sent_back(bootstrap: str) -> None:
    said = run(bootstrap, "dead_letters.py")

    assert "handled: ['also fine', 'fine', 'flaky'] flaky took 3 attempts" in said
    assert "parked: 'unreadable' because Reject: this needs a person" in said
    assert "sent back: 1" in said
    assert "and now handled: unreadable" in said


def test_a_hot_key_is_spread(bootstrap: str) -> None:
    by_key, salted, _ = (line.split(":")[-1] for line in run(bootstrap, "hot_keys.py").splitlines())

    hottest = max(map(int, by_key.strip(" []").split(",")))
    assert hottest >= 1000
    assert max(map(int, salted.strip(" []").split(","))) < hottest * 0.6


def test_a_queue_in_memory_shares_its_messages_among_threads(bootstrap: str) -> None:
    said = run(bootstrap, "memory_queue.py").splitlines()

    assert said[-1] == "12 of 12 messages received"
    got = [line.split(" received ") for line in said[:-1]]
    assert sorted(message for _, message in got) == sorted(f"message-{number}" for number in range(12))
    consumers = {consumer for consumer, _ in got}
    assert consumers <= {"consumer-0", "consumer-1", "consumer-2"}
    assert len(consumers) > 1


@pytest.mark.skipif(find_spec("fastapi") is None or find_spec("httpx") is None, reason="FastAPI and httpx are not installed")
def test_a_web_service_sends_and_reads(bootstrap: str) -> None:
    said = run(bootstrap, "fastapi_orders.py", "--demo")

    assert "sent: {'partition': 0, 'offset': 0}" in said
    assert "total: 12.5" in said


def test_every_example_has_a_test_and_a_line_in_the_list() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}

    tested = Path(__file__).read_text()
    listed = (EXAMPLES / "README.md").read_text()
    assert {name for name in names if f'"{name}"' not in tested} == set()
    assert {name for name in names if f"`{name}`" not in listed} == set()
