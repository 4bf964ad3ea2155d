"""Markers are tried again for as long as this broker coordinates them, also when their shard was loaded anew in between."""

import asyncio
from types import SimpleNamespace
from typing import Any

from headrace.broker.coordinators.transactions.markers import MarkerSender
from headrace.coordination.moment import Moment
from headrace.coordination.transaction.markers import Marker
from headrace.model.identity import ProducerIdentity
from tests.support.waiting import until_async


class WaitingMarkers:
    """One that is due again and again."""

    def __len__(self) -> int:
        return 1

    def next_due_ms(self) -> int:
        return 0


def led_shard() -> Any:
    looks: list[Moment] = []
    shard = SimpleNamespace(markers=WaitingMarkers(), take_markers=lambda now, high_watermark: looks.append(now) or ())
    return SimpleNamespace(index=0, shard=shard, log=SimpleNamespace(high_watermark=1), term=1, looks=looks)


def test_a_shard_that_is_loaded_anew_while_its_predecessor_waits_to_try_again_is_come_back_to() -> None:
    """Found by simulation: the timer of the one before kept the next from having its own, and ended with it."""

    async def story() -> None:
        before, now = led_shard(), led_shard()
        serving = [before]
        shards: Any = SimpleNamespace(
            now=lambda: Moment(monotonic=0.0, wall_ms=0), is_loaded=lambda index: True, serving=lambda index: serving[-1]
        )
        nobody: Any = None
        sender = MarkerSender(1, nobody, shards, nobody, nobody, nobody, on_written=nobody)
        sender.send_due(before)
        serving.append(now)
        sender.send_due(now)

        await until_async(lambda: len(now.looks) > 1, "the shard that serves is looked at again")

        assert len(before.looks) == 1
        sender.close()

    asyncio.run(story())


def test_a_shard_that_cannot_take_note_of_its_markers_is_loaded_again() -> None:
    async def story() -> None:
        led = led_shard()
        failures: list[Any] = []
        led.fail, led.take_news = failures.append, lambda news: None

        def fails(*_: object) -> None:
            raise ValueError("a bug")

        led.shard.note_markers = fails
        shards: Any = SimpleNamespace(
            now=lambda: Moment(monotonic=0.0, wall_ms=0), is_loaded=lambda index: True, serving=lambda index: led
        )
        nobody: Any = None
        sender = MarkerSender(1, nobody, shards, nobody, nobody, nobody, on_written=nobody)
        marker = Marker(
            transactional_id="x",
            producer=ProducerIdentity(7, 0),
            committed=True,
            partitions=frozenset(),
            transaction_version=2,
        )
        await sender._send(0, marker, 1)

        assert [str(failure) for failure in failures] == ["a bug"]

    asyncio.run(story())
