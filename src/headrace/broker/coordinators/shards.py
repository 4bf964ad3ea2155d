"""All shards of one internal topic on this broker: one pure coordinator for each partition that it leads.

Finds the shard that looks after a key, has it decide, and answers when what it decided is committed.  A partition that is not
led answers nobody: whoever waits is told NOT_COORDINATOR.  The kind of shard, the encoding of its entries and the topic are
parameters; groups and transactions share all of this.
"""

from collections.abc import Callable, Iterator
from typing import Concatenate, Generic

from headrace.broker.coordinators.interfaces import CoordinatorLog
from headrace.broker.coordinators.led_shard import Arguments, LedShard, Request, ShardContext, ShardType
from headrace.coordination.decision import Answer, Decision, Token
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError


class Shards(Generic[ShardType]):
    """Shards by partition.  What asks one of them raises RequestError when it is looked after elsewhere, is being loaded, or
    refuses, and when what it decided could not be written."""

    def __init__(self, context: ShardContext[ShardType], partition_of: Callable[[str], int]) -> None:
        """`partition_of` answers which partition looks after a key; it may raise RequestError."""
        self._context = context
        self.partition_of = partition_of
        self._led: dict[int, LedShard[ShardType]] = {}

    # --- leadership -------------------------------------------------------------------------------------------------------

    def lead(self, index: int, log: CoordinatorLog) -> None:
        """This broker now leads the partition: load its shard and serve.  A second call replaces the first."""
        self.resign(index)
        self._led[index] = led = LedShard(index, log, self._context)
        led.lead()

    def resign(self, index: int) -> None:
        """This broker does not lead the partition any more: forget its shard, tell whoever waits to look elsewhere."""
        led = self._led.pop(index, None)
        if led is not None:
            led.resign()

    def close(self) -> None:
        for index in list(self._led):
            self.resign(index)
        self._context.waiting.close()

    def leads(self, index: int) -> bool:
        return index in self._led

    def term(self, index: int) -> int | None:
        """The leader epoch in which this broker leads the partition; None when it does not."""
        led = self._led.get(index)
        return None if led is None else led.term

    def is_loaded(self, index: int) -> bool:
        led = self._led.get(index)
        return led is not None and led.is_loaded

    async def wait_loaded(self, index: int) -> None:
        """Return when the shard serves; raise what a request would be told when it does not come to that."""
        led = self._led.get(index)
        if led is not None:
            await led.wait_loaded()
        self.serving(index)

    def loaded(self) -> Iterator[LedShard[ShardType]]:
        return (led for led in list(self._led.values()) if led.is_loaded)

    def serving(self, index: int) -> LedShard[ShardType]:
        """The loaded shard of a partition that this broker leads."""
        led = self._led.get(index)
        if led is None:
            raise RequestError(ErrorCode.NOT_COORDINATOR, f"this broker does not lead {self._context.topic}-{index}")
        if not led.is_loaded:
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{led.name} is being loaded")
        return led

    # --- requests ---------------------------------------------------------------------------------------------------------

    def now(self) -> Moment:
        return self._context.now()

    async def ask(
        self, key: str, decide: Callable[[ShardType, Request, Token, Moment], Decision[Answer]], request: Request
    ) -> Answer:
        """Have the shard of a key decide about a request, and return its reply, which may come only with a later decision."""
        return await self.serving(self.partition_of(key)).ask(decide, request)

    async def look(
        self,
        key: str,
        look: Callable[Concatenate[ShardType, Arguments], Answer],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Answer:
        """What the shard of a key has to say, once all that it knows is committed."""
        return await self.serving(self.partition_of(key)).look(look, *args, **kwargs)

    async def look_everywhere(
        self, look: Callable[Concatenate[ShardType, Arguments], list[Answer]], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> list[Answer]:
        """What all shards here have to say; raises while one of them is being loaded."""
        found: list[Answer] = []
        for index in list(self._led):
            try:
                found += await self.serving(index).look(look, *args, **kwargs)
            except RequestError as error:
                # It may have moved since we began.
                if error.code is not ErrorCode.NOT_COORDINATOR:
                    raise
        return found
