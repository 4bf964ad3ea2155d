"""Which subscriptions a gateway delivers, and what it does where it cannot."""

import asyncio
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.client.errors import BrokerTimeout
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.state import Key, State
from headrace.gateway.webhooks.engine import Engine
from headrace.gateway.webhooks.sealing import Seal
from headrace.gateway.webhooks.subscription import Subscription, new_document

WANTED = {"topic": "orders", "group": "billing", "callback_url": "https://shop.example/hook"}


def subscription(name: str = "sub_1") -> Subscription:
    return Subscription(name, 1, new_document(WANTED, "ann", {0: 0}, {"plain": []}, {"plain": {}}, 0))


class OwnLog(Fleet):
    """A fleet whose log is in this process, and applied at once."""

    def __init__(self, name: str, state: State, seal: Seal) -> None:
        super().__init__(name, None, None, lambda: "http://x", seal)  # type: ignore[arg-type]
        self.journal.state = state
        self.journal.applied = 0
        self.journal.change = self._change  # type: ignore[method-assign]
        self._beaten_until = time.monotonic() + 600
        state.apply(Key("gateway", self.id, 0, "-").encoded(), orjson.dumps({"url": "http://x", "key": seal.key_id}))

    async def _change(self, kind: str, name: str, seen: int, document: dict[str, Any]) -> bool:
        return self.journal.state.apply(Key(kind, name, seen + 1, self.id).encoded(), orjson.dumps(document))


def keyed(directory: Path, text: bytes) -> Seal:
    file = directory / text[:4].decode()
    file.write_bytes(text)
    file.chmod(0o600)
    return Seal(file)


def put(state: State, name: str, document: Any, version: int = 1) -> None:
    state.apply(Key("thing", name, version, "n").encoded(), orjson.dumps(document))


def engine_of(state: State, seal: Seal, monkeypatch: pytest.MonkeyPatch, name: str = "g") -> Engine:
    engine = Engine(OwnLog(name, state, seal), None, None, seal, 900.0)  # type: ignore[arg-type]

    async def deliver(subscription: Subscription) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(engine, "_deliver", deliver)
    return engine


async def delivered_by(*engines: Engine) -> list[list[str]]:
    for engine in (*engines, *engines):
        await engine._look()
    found = [sorted(engine.delivering) for engine in engines]
    for engine in engines:
        await engine.close()
    return found


def test_an_entry_that_cannot_be_read_stops_no_other(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def look() -> list[list[str]]:
        state = State()
        good = subscription().document
        for number, bad in enumerate(({"n": 1}, {**good, "wanted": {"topic": 7}}, {**good, "begins": 3}, {**good, "secrets": 0})):
            put(state, f"bad_{number}", bad)
        put(state, "good", good)
        return await delivered_by(engine_of(state, Seal(None), monkeypatch))

    assert asyncio.run(look()) == [["good"]]
    said = [record.getMessage() for record in caplog.records]
    assert [sum(f"bad_{number} " in each for each in said) for number in range(4)] == [1, 1, 1, 1]


def test_who_has_not_the_key_leaves_what_is_sealed_to_who_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def look() -> list[list[str]]:
        state, seal = State(), keyed(tmp_path, b"right" * 8)
        sealed = {**subscription().document, "credentials": seal.seal({}), "secrets": seal.seal([])}
        for number in range(20):
            put(state, f"sub_{number}", sealed)
        without = engine_of(state, Seal(None), monkeypatch, "a")
        wrong = engine_of(state, keyed(tmp_path, b"other" * 8), monkeypatch, "b")
        return await delivered_by(without, wrong, engine_of(state, seal, monkeypatch, "c"))

    without, wrong, right = asyncio.run(look())
    assert (without, wrong, len(right)) == ([], [], 20)


def test_what_is_sealed_later_is_let_go_by_who_has_not_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def look() -> list[list[str]]:
        state, seal = State(), keyed(tmp_path, b"right" * 8)
        put(state, "sub_1", subscription().document)
        without = engine_of(state, Seal(None), monkeypatch, "a")
        await without._look()
        assert list(without.delivering) == ["sub_1"]
        put(state, "sub_1", {**subscription().document, "secrets": seal.seal([])}, 2)
        return await delivered_by(without, engine_of(state, seal, monkeypatch, "c"))

    assert asyncio.run(look()) == [[], ["sub_1"]]


def test_a_gateway_holds_only_what_the_log_says_is_its_own() -> None:
    state = State()
    fleet = OwnLog("g", state, Seal(None))
    assert asyncio.run(fleet.claim("sub_1"))
    held = fleet.holds("sub_1")
    state.apply(Key("claim", "sub_1", 2, "other").encoded(), b'{"owner":"other"}')

    assert (held, fleet.holds_lease, fleet.holds("sub_1")) == (True, True, False)


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
        await asyncio.Event().wait()

    async def deliver_for_a_while() -> Any:
        monkeypatch.setattr(engine, "_deliver", deliver)
        async with asyncio.timeout(30):
            await engine._keep_delivering(subscription())

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(deliver_for_a_while())

    assert tries == 3
