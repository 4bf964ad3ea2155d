"""Delivering a subscription without order: records are taken from a share group, posted side by side, and accepted one by one.

Always: a record is accepted after a 2xx, or after its dead letter is kept; its lock is held meanwhile, and ends by itself where
this gateway does, so that whoever delivers next gets it again.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from headrace.gateway.brokers.share_reader import ACCEPT, ShareReader, Taken
from headrace.gateway.serving.tasks import Tasks
from headrace.gateway.webhooks.delivery import GONE, Courier, Ended, Tried, now_ms
from headrace.gateway.webhooks.patience import backoff_s, retry_after_s
from headrace.gateway.webhooks.posting import body_of

POSTS_AT_ONCE: Final = 32
HELD_MAX: Final = 500


class QueueCourier(Courier):
    """Delivers one subscription for as long as it runs."""

    async def run(self) -> None:
        """Returns never; raises Ended, or whatever brokers say."""
        tasks = Tasks()
        reader = ShareReader(self._caller.cluster, self._wanted.group, self._wanted.topic, max(HELD_MAX, 2 * self._wanted.batch))
        running = [tasks.spawn(reader.run(), "take records of a queue")]
        running += [tasks.spawn(self._deliver_from(reader), "deliver what was taken") for _ in range(POSTS_AT_ONCE)]
        try:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await tasks.close()

    async def _deliver_from(self, reader: ShareReader) -> None:
        while True:
            some = [await reader.taken.get()]
            while len(some) < self._wanted.batch and not reader.taken.empty():
                some.append(reader.taken.get_nowait())
            chosen = [each for each in some if self._wanted.filter.wants(each.shown.record)]
            if chosen:
                await self._deliver_taken(chosen)
            for each in some:
                reader.settle(each, ACCEPT)

    async def _deliver_taken(self, taken: list[Taken]) -> None:
        records = [each.shown for each in taken]
        first, last = records[0], records[-1]
        body, media_type = body_of(records, self._wanted.format, self._wanted.batch)
        message_id = f"{self._subscription.id}_{first.place.partition}_{first.record.offset}"
        tried = Tried(first.record.offset, last.record.offset, now_ms())
        while tried.attempts < self._wanted.attempts:
            await asyncio.sleep(max(0.0, tried.again_at - time.monotonic()))
            outcome = await self._attempt(body, media_type, message_id)
            tried.attempts += 1
            tried.reason = outcome.error or ""
            self._note(records, tried.attempts, outcome)
            if outcome.is_delivered:
                return
            if outcome.status == GONE:
                raise Ended
            wait = max(backoff_s(tried.attempts), retry_after_s(outcome.retry_after, time.time()))
            tried.again_at = time.monotonic() + wait
        await self._park(records, tried)
