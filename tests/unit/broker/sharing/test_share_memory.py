"""What share fetches hold in memory: no more than there is room for, also where they waited for a disk before."""

import asyncio
from typing import Any

import pytest

from headrace.broker.sharing import reading
from headrace.model.errors import ErrorCode
from tests.support.share_requests import ACCEPT
from tests.unit.broker.handlers.replicas_in_memory import HERE
from tests.unit.broker.sharing.share_stage import Stage, play

ALL = 1 << 24  # all the memory of a connection here


def test_what_is_cold_is_read_only_if_there_is_still_room_when_it_is_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        stage = Stage()
        stage.produce(b"a")
        ann = stage.member()
        others = ann.connection.share._account.open()

        async def while_others_are_quicker(*_: object) -> None:
            others.settle(0, ALL)

        monkeypatch.setattr(reading, "is_warm", lambda *_: False)
        monkeypatch.setattr(reading, "warm_up", while_others_are_quicker)

        assert await ann.take(0, max_wait_ms=0, max_bytes=1 << 20) == []
        monkeypatch.undo()
        waiting = asyncio.ensure_future(ann.take(max_wait_ms=60_000, max_bytes=1 << 20))
        await asyncio.sleep(0)
        others.settle(0, 0)
        assert await waiting == [(0, 0, 1)]

    play(story)


def test_what_is_found_does_not_wait_for_what_is_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        stage = Stage(HERE, HERE)
        stage.produce(b"a", index=0)
        stage.produce(b"b", index=1)
        ann = stage.member()
        warmed: list[Any] = []

        async def warm_up(loop: object, disk: object, partition: Any, offset: int, size: int) -> None:
            warmed.append(partition.identity.partition)

        monkeypatch.setattr(reading, "is_warm", lambda partition, offset: partition.identity.partition == 0)
        monkeypatch.setattr(reading, "warm_up", warm_up)

        assert await ann.take(0, 1) == [(0, 0, 1)]
        assert warmed == []
        assert await ann.say(0, 0, ACCEPT) == ErrorCode.NONE
        assert await ann.take() == [(0, 0, 1)]
        assert warmed == [1]

    play(story)
