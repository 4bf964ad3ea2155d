"""Attempts of a delivery, counted over the ends of the couriers that make them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.gateway.brokers.tails import Shown
from headrace.gateway.webhooks import delivery
from headrace.gateway.webhooks.delivery import Courier, Tried
from headrace.gateway.webhooks.engine import Engine, Running
from headrace.gateway.webhooks.patience import FAILURES_TO_OPEN, Breaker
from headrace.gateway.webhooks.posting import Outcome
from headrace.gateway.webhooks.sealing import Seal
from headrace.gateway.webhooks.subscription import Subscription, new_document
from headrace.model.identity import TopicPartition
from headrace.records.record import Record

WANTED = {"topic": "orders", "group": "billing", "callback_url": "https://shop.example/hook", "attempts": 3}
RECORD = Shown(TopicPartition("orders", 0), Record(5, 0, None, b"1", ()))


class Down:
    """Stands for the endpoint, which fails, and for the producer of dead letters."""

    def __init__(self) -> None:
        self.posts = 0
        self.letters: list[dict[str, bytes]] = []

    async def post(self, *given: Any) -> Outcome:
        self.posts += 1
        return Outcome(400, 1.0, error="the endpoint answered 400", retry_after="60" if self.posts == 2 else None)

    async def send(self, topic: str, value: bytes, *, key: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        self.letters.append(dict(headers))

    @property
    def producer(self) -> "Down":
        return self


def test_attempts_go_on_where_they_were_when_a_principal_signs_in_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "backoff_s", lambda attempt: 0.0)
    down = Down()
    counts: list[int] = []
    found = Subscription("sub_1", 1, new_document(WANTED, "ann", {0: 0}, {"plain": []}, {"plain": {}}, 0))

    def courier() -> Courier:
        return Courier(found, [], down, down, Breaker(), lambda: True)  # type: ignore[arg-type]

    async def deliver() -> None:
        first = courier()
        for _ in range(2):  # Retry-After holds over the end of the first courier
            second = courier()
            second.tried |= first.tried
            first = second
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await first._deliver([RECORD])
            counts.append(down.posts)
        first.tried[0].again_at = 0.0
        await first._deliver([RECORD])

    asyncio.run(deliver())

    assert (counts, down.posts) == ([2, 2], 3)
    assert [letter["headrace-dead-letter-attempts"] for letter in down.letters] == [b"3"]


def test_a_new_courier_is_told_what_the_one_before_has_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Subscription("sub_1", 1, new_document(WANTED, "ann", {0: 0}, {"plain": []}, {"plain": {}}, 0))
    told: list[dict[int, int]] = []

    @asynccontextmanager
    async def borrow(credentials: Any) -> AsyncIterator[Any]:
        yield None

    async def run(courier: Courier) -> None:
        told.append({partition: tried.attempts for partition, tried in courier.tried.items()})
        courier.tried[0] = Tried(5, 5, 0, attempts=2)

    async def deliver_twice() -> None:
        callers: Any = SimpleNamespace(borrow=borrow, doorkeeper=SimpleNamespace(kept=lambda kept: kept))
        engine = Engine(None, callers, None, Seal(None), 900.0)  # type: ignore[arg-type]
        engine.delivering["sub_1"] = Running(1, None)  # type: ignore[arg-type]
        for _ in range(2):
            await engine._deliver(found)

    monkeypatch.setattr(Courier, "run", run)
    asyncio.run(deliver_twice())

    assert told == [{}, {0: 2}]


def test_what_was_delivered_is_counted_anew_when_it_comes_again() -> None:
    class Up(Down):
        async def post(self, *given: Any) -> Outcome:
            self.posts += 1
            return Outcome(200, 1.0)

    up = Up()
    wanted = {**WANTED, "attempts": 1}
    found = Subscription("sub_1", 1, new_document(wanted, "ann", {0: 0}, {"plain": []}, {"plain": {}}, 0))

    async def deliver_twice() -> None:
        courier = Courier(found, [], up, up, Breaker(), lambda: True)  # type: ignore[arg-type]
        for _ in range(2):
            await courier._deliver([RECORD])

    asyncio.run(deliver_twice())

    assert (up.posts, up.letters) == (2, [])


def test_who_waits_for_its_lease_does_not_take_the_breakers_one_look() -> None:
    down, leases = Down(), iter([False, False])
    breaker = Breaker(failures=FAILURES_TO_OPEN)
    found = Subscription("sub_1", 1, new_document(WANTED, "ann", {0: 0}, {"plain": []}, {"plain": {}}, 0))
    courier = Courier(found, [], down, down, breaker, lambda: next(leases, True))  # type: ignore[arg-type]

    async def attempt() -> None:
        async with asyncio.timeout(5):
            await courier._attempt(b"", "application/json", "id")

    asyncio.run(attempt())

    assert (down.posts, breaker.is_probed) == (1, False)
