"""Which subscriptions a gateway delivers, and what it does where it cannot."""

import asyncio
from typing import Any

import pytest

from headrace.client.errors import BrokerTimeout
from headrace.gateway.webhooks.engine import Engine
from headrace.gateway.webhooks.subscription import Subscription, new_document

WANTED = {"topic": "orders", "group": "billing", "callback_url": "https://shop.example/hook"}


def subscription(name: str = "sub_1") -> Subscription:
    return Subscription(name, 1, new_document(WANTED, "ann", {0: 0}, {"plain": []}, {"plain": {}}, 0))


def test_a_broker_that_is_away_is_asked_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(*[None] * 4, age_s=900.0)  # type: ignore[arg-type]
    tries = 0

    async def deliver(subscription: Subscription) -> None:
        nonlocal tries
        tries += 1
        await asyncio.sleep(0)
        raise BrokerTimeout("no broker answers")

    async def deliver_for_a_while() -> None:
        monkeypatch.setattr(engine, "_deliver", deliver)
        async with asyncio.timeout(0.2):
            await engine._keep_delivering(subscription())

    with pytest.raises(TimeoutError):
        asyncio.run(deliver_for_a_while())

    assert tries == 1


def test_a_principal_that_has_been_there_for_long_signs_in_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(*[None] * 4, age_s=0.01)  # type: ignore[arg-type]
    tries = 0

    async def deliver(subscription: Subscription) -> None:
        nonlocal tries
        tries += 1
        if tries == 3:
            raise asyncio.CancelledError
        await asyncio.sleep(60)

    async def deliver_for_a_while() -> Any:
        monkeypatch.setattr(engine, "_deliver", deliver)
        async with asyncio.timeout(30):
            await engine._keep_delivering(subscription())

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(deliver_for_a_while())

    assert tries == 3
