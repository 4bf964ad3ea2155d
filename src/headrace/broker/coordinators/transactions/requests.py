"""Requests about transactions: the shard that looks after one decides, and whoever comes too early waits a little."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

from headrace.broker.coordinators.led_shard import Request
from headrace.broker.coordinators.shards import Shards
from headrace.broker.coordinators.waiting import MarkersOf, Waiting
from headrace.coordination.decision import Decision, Token
from headrace.coordination.moment import Moment
from headrace.coordination.transaction.shard import TransactionShard
from headrace.model.errors import ErrorCode, RequestError

TransactionShards = Shards[TransactionShard]

# How long a request waits for the markers of the transaction before it.  Clients wait longer between their own attempts.
MARKER_PATIENCE_S = 0.1


class _Answered(Protocol):
    @property
    def error(self) -> ErrorCode: ...


Answered = TypeVar("Answered", bound=_Answered)


class TransactionRequests:
    """Asks shards on behalf of producers."""

    def __init__(self, shards: TransactionShards, waiting: Waiting) -> None:
        """`waiting` is where markers that are written are told of."""
        self.shards = shards
        self.waiting = waiting

    async def ask(
        self,
        transactional_id: str,
        decide: Callable[[TransactionShard, Request, Token, Moment], Decision[Answered]],
        request: Request,
    ) -> Answered:
        """Have the shard decide; while the markers of the transaction before are on their way, wait for them and ask again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + MARKER_PATIENCE_S
        while True:
            answer = await self.shards.ask(transactional_id, decide, request)
            patience_s = deadline - loop.time()
            if answer.error is not ErrorCode.CONCURRENT_TRANSACTIONS or patience_s <= 0:
                return answer
            # Late, or the shard has moved: whichever it is, the next answer says it.
            with suppress(RequestError):
                await self._wait_for_markers(transactional_id, patience_s)

    async def _wait_for_markers(self, transactional_id: str, patience_s: float) -> None:
        led = self.shards.serving(self.shards.partition_of(transactional_id))
        found = led.shard.get(transactional_id)
        if found is not None and found.prepared:
            await self.waiting.wait(MarkersOf(led.index, transactional_id), patience_s)
