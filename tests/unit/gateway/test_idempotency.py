"""Changes that are sent twice and done once."""

import asyncio

import pytest

from headrace.gateway.api import idempotency
from headrace.gateway.api.idempotency import Memory


def test_after_a_failure_those_who_waited_do_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    async def change(memory: Memory, number: int) -> None:
        async with memory.attempt("ann", "key", b"same") as attempt:
            if attempt.answer is None:
                await asyncio.sleep(0)  # the others line up
                if number == 0:
                    raise OSError
                done.append(number)
                attempt.answer = (200, b"{}")

    async def all_at_once() -> None:
        memory = Memory(lambda: 0.0)
        first = [asyncio.create_task(change(memory, number)) for number in range(3)]
        await asyncio.wait(first[:1])
        await asyncio.gather(*first, *(change(memory, number) for number in range(3, 6)), return_exceptions=True)

    asyncio.run(all_at_once())

    assert len(done) == 1


def test_answers_are_kept_up_to_a_size_and_what_is_under_way_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "BYTES_MAX", 1000)

    async def fill() -> tuple[int, bool]:
        memory = Memory(lambda: 0.0)
        async with memory.attempt("ann", "slow", b"") as slow:
            for number in range(50):
                async with memory.attempt("bob", str(number), b"") as attempt:
                    attempt.answer = (200, b"x" * 100)
            return len(memory._kept), memory._kept["ann", "slow"] is slow

    count, is_there = asyncio.run(fill())

    assert 10 <= count <= 12
    assert is_there
