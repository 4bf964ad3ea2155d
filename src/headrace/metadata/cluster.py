"""This broker's view of the cluster and its hand in changing it.

One task watches the store and keeps the image current; listeners hear of each change after the image has it.  When the watch dies
in the middle of a change and restarts, it reads everything anew, and listeners look at all of it.  A command decides
against the image, writes by compare-and-swap, decides anew when somebody was faster, and returns only when this broker's own
image shows what was written: what a client was told, its next question sees.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from headrace.controller import topics
from headrace.controller.changes import Change
from headrace.controller.entries import (
    CLUSTER_ID,
    PARTITIONS,
    PRODUCER_IDS,
    Compare,
    Condition,
    ConditionalWrite,
    Event,
    Put,
    absent,
    decode_number,
    encode_number,
)
from headrace.controller.image import ClusterImage, Topic
from headrace.host.entropy import Entropy
from headrace.metadata.changes import NextChange
from headrace.metadata.store import Listing, MetadataStore, RevisionCompacted, StoreUnavailable, TransactionResult, WatchBatch
from headrace.model.errors import ErrorCode, RequestError

logger = logging.getLogger(__name__)

ATTEMPTS_MAX = 20
CATCH_UP_TIMEOUT_S = 30.0
CONFLICT_WAIT_S = 1.0
RELIST_PAUSE_S = 0.5
# Placed and written down in one step of the event loop.
PARTITIONS_PER_TURN = 1000
EVENTS_PER_TURN = 1000

Listener = Callable[[Sequence[Change]], None]
Plan = Callable[[ClusterImage], Sequence[ConditionalWrite]]


class Kept(Protocol):
    """A task that somebody looks after."""

    async def close(self) -> None:
        """Have it end, and return when it has."""
        ...


Keep = Callable[[str, Callable[[], Coroutine[Any, Any, None]]], Kept]
"""Runs something under a name for as long as nobody closes it: when it dies, it restarts, or all of the process ends."""


class ClusterMetadata:
    """Make one, `await start()`, read `image`, `await close()`."""

    def __init__(self, store: MetadataStore, entropy: Entropy) -> None:
        self.store = store
        self.image = ClusterImage()
        self._entropy = entropy
        self._listeners: list[Listener] = []
        # In the order in which they began to wait, which a set does not keep.
        self._next = NextChange()
        self._on_renewed: list[Callable[[], None]] = []
        self._watching: Kept | None = None
        # A change is under way.  If the watch dies in it, somebody was not told: only reading everything again helps.
        self._in_doubt = False

    @property
    def cluster_id(self) -> str:
        return self.image.cluster_id

    def on_change(self, listener: Listener, *, renewed: Callable[[], None]) -> None:
        """Call `listener` with the changes of each revision, in the loop's thread.  It must not block or raise.

        `renewed` is called instead when the image was made anew, after changes that not everybody may have heard of: whoever
        remembers anything of what it heard looks at the whole image then."""
        self._listeners.append(listener)
        self._on_renewed.append(renewed)

    async def start(self, keep: Keep) -> None:
        """Read everything, name the cluster if it has no name, and keep watching."""
        listing = await self.store.list("")
        self.image = ClusterImage.from_items(listing.items, listing.revision)
        self._watching = keep("metadata watch", self._watch)
        if not self.image.cluster_id:
            await self._submit(self._name_cluster)

    async def close(self) -> None:
        """Stop watching.  The store stays open: it is not ours."""
        if self._watching is not None:
            await self._watching.close()

    async def create_topic(self, spec: topics.TopicSpec, *, validate_only: bool = False) -> UUID:
        """Make a topic, or find out whether it could be made; answer its id.  Raises RequestError."""
        count = spec.partition_count if spec.assignments is None else len(spec.assignments)

        def begin(image: ClusterImage) -> topics.Computation:
            return topics.creation(image, spec, self.store.operations_max)

        await self._submit_new_partitions(count, begin, validate_only=validate_only)
        return spec.topic_id

    def new_topic_id(self) -> UUID:
        return self._entropy.uuid()

    async def delete_topic(self, name: str, topic_id: UUID | None = None) -> None:
        """Remove the topic that has the name now, or the one with this id; never one that is made meanwhile under the name."""
        wanted = topic_id or _existing(self.image, name).topic_id

        def delete(image: ClusterImage) -> Sequence[ConditionalWrite]:
            topic = _existing(image, name)
            if topic.topic_id != wanted:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, f"Somebody else has deleted '{name}' and made it again.")
            return [topics.delete_topic(image, topic)]

        await self._submit(delete)

    async def create_partitions(
        self, name: str, new_count: int, assignments: list[tuple[int, ...]] | None = None, *, validate_only: bool = False
    ) -> None:
        def begin(image: ClusterImage) -> topics.Computation:
            return topics.growth(image, name, new_count, assignments, self.store.operations_max)

        await self._submit_new_partitions(new_count, begin, validate_only=validate_only)

    async def _submit_new_partitions(
        self, count: int, begin: Callable[[ClusterImage], topics.Computation], *, validate_only: bool
    ) -> None:
        """Many are placed in a thread: it takes a second for ten thousand, and a broker's lease must be renewed meanwhile."""
        if count <= PARTITIONS_PER_TURN:
            if validate_only:
                begin(self.image)()
            else:
                await self._submit(lambda image: begin(image)())
            return
        for _ in range(ATTEMPTS_MAX):
            writes = await asyncio.get_running_loop().run_in_executor(None, begin(self.image))
            if validate_only or await self._commit_all(writes):
                return
        raise _contended()

    async def alter_topic_configs(self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        """Replace a topic's settings by what `change` makes of them.  It may be called again when somebody else was faster."""
        await self._submit(lambda image: [topics.alter_topic_configs(image, name, change(_existing(image, name).configs))])

    async def alter_broker_configs(self, broker_id: int | None, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        """Replace run-time settings of one broker, or (None) the default of all, by what `change` makes of them."""
        await self._submit(lambda image: [topics.alter_broker_configs(image, broker_id, change(_own_configs(image, broker_id)))])

    async def allocate_producer_ids(self, count: int) -> range:
        """A block of producer ids that nobody else has or ever had."""
        for _ in range(ATTEMPTS_MAX):
            item = await self.store.get(PRODUCER_IDS)
            first = decode_number(item.value) if item else 0
            unchanged = Compare(PRODUCER_IDS, item.mod_revision if item else 0)
            if (await self.store.transact([unchanged], [Put(PRODUCER_IDS, encode_number(first + count))])).succeeded:
                return range(first, first + count)
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Producer ids are contended; try again.")

    async def commit(self, write: ConditionalWrite) -> bool:
        """Make one write decided elsewhere; True when it succeeded, and the image then shows it."""
        result = await self.store.transact(write.conditions, write.operations)
        if result.succeeded:
            await self._until(lambda: self.image.revision >= result.revision, CATCH_UP_TIMEOUT_S)
        else:
            await self._see_conflict(write.conditions)
        return result.succeeded

    async def see(self, key: str) -> None:
        """Return when the image shows what the store has under a key now.  Whoever is about to say no on the strength of it asks
        first: another broker may have told its client otherwise a moment ago."""
        try:
            item = await self.store.get(key)
        except StoreUnavailable as error:
            raise RequestError(ErrorCode.REQUEST_TIMED_OUT, f"The metadata store does not answer: {error}") from error
        seen = self.image.mod_revision(key)
        if item is not None:
            await self._until(lambda: self.image.revision >= item.mod_revision, CATCH_UP_TIMEOUT_S)
        elif seen:
            await self._until(lambda: self.image.mod_revision(key) != seen, CATCH_UP_TIMEOUT_S)

    async def submit(self, plan: Plan) -> None:
        """Plan against the image and write; when somebody was faster, plan again."""
        await self._submit(plan)

    async def _submit(self, plan: Plan) -> None:
        is_current = False
        for _ in range(ATTEMPTS_MAX):
            writes = plan(self.image)
            if not writes and not is_current:
                # Whoever finds nothing to do may not have heard yet of what there is: no condition of a write will tell.
                await self.catch_up()
                is_current = True
            elif await self._commit_all(writes):
                return
        raise _contended()

    async def catch_up(self) -> None:
        """Return when the image has everything that was written before this call, by whomever."""
        await self._commit_all([ConditionalWrite((), ())])

    async def _commit_all(self, writes: Sequence[ConditionalWrite]) -> bool:
        result = TransactionResult(True, 0)
        for write in writes:
            try:
                result = await self.store.transact(write.conditions, write.operations)
            except StoreUnavailable as error:
                raise RequestError(ErrorCode.REQUEST_TIMED_OUT, f"The metadata store does not answer: {error}") from error
            if not result.succeeded:
                await self._see_conflict(write.conditions)
                return False
            # Not every store waits for something: whoever follows it hears of one step before the next is made.
            await asyncio.sleep(0)
        await self._until(lambda: self.image.revision >= result.revision, CATCH_UP_TIMEOUT_S)
        return True

    async def _see_conflict(self, conditions: Sequence[Condition]) -> None:
        """Wait until the image shows why a write failed: deciding again before that would only fail again."""
        try:
            await self._until(lambda: not all(self.image.holds(condition) for condition in conditions), CONFLICT_WAIT_S)
        except RequestError:
            # What stood in the way came and went between two looks, or the watch lags: trying again is right in both cases.
            return

    async def wait_until(self, holds: Callable[[ClusterImage], bool], timeout_s: float) -> None:
        """Return when the image satisfies `holds`; raise REQUEST_TIMED_OUT after the time."""
        await self._until(lambda: holds(self.image), timeout_s)

    async def wait_for_change(self, revision: int, timeout_s: float) -> None:
        """Return when the image is past a revision, or after the time."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.image.revision <= revision:
                    await self._next.wait()
        except TimeoutError:
            return

    async def _until(self, holds: Callable[[], bool], timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while self._in_doubt or not holds():
                    await self._next.wait()
        except TimeoutError as error:
            raise RequestError(ErrorCode.REQUEST_TIMED_OUT, "This broker's view of the metadata lags.") from error

    async def _watch(self) -> None:
        while True:
            try:
                if self._in_doubt:
                    await self._renew()
                async for batch in self.store.watch("", self.image.revision + 1):
                    await self._take_in_turns(batch)
                return
            except RevisionCompacted:
                logger.info("the store forgot what we missed; reading everything again")
                await self._relist()

    async def _list(self) -> Listing:
        """Everything there is, however long the store does not answer."""
        while True:
            try:
                return await self.store.list("")
            except StoreUnavailable:
                await asyncio.sleep(RELIST_PAUSE_S)

    async def _relist(self) -> None:
        listing = await self._list()
        self._take(self.image.events_towards(listing.items, listing.revision), listing.revision)

    async def _renew(self) -> None:
        """Make the image anew from all that is there, and have everybody look at it."""
        logger.warning("changes of the metadata may have been missed; reading everything again")
        listing = await self._list()
        self.image = ClusterImage.from_items(listing.items, listing.revision)
        for listener in self._on_renewed:
            listener()
        self._in_doubt = False
        self._next.notify()

    async def _take_in_turns(self, batch: WatchBatch) -> None:
        """A topic that is deleted leaves an event for each of its partitions, which nobody sees any more: they can wait."""
        events = batch.events
        seen = len(events)
        while seen > EVENTS_PER_TURN and events[seen - 1].item is None and events[seen - 1].key.startswith(PARTITIONS):
            seen -= 1
        self._apply(events[:seen], batch.revision)
        for start in range(seen, len(events), EVENTS_PER_TURN):
            await asyncio.sleep(0)
            self._apply(events[start : start + EVENTS_PER_TURN], batch.revision)
        self._in_doubt = False
        self._next.notify()

    def _take(self, events: Sequence[Event], revision: int) -> None:
        self._apply(events, revision)
        self._in_doubt = False
        self._next.notify()

    def _apply(self, events: Sequence[Event], revision: int) -> None:
        self._in_doubt = True
        changes: list[Change] = []
        for event in events:
            changes += self.image.apply(event)
        self.image.revision = max(self.image.revision, revision)
        if changes:
            for listener in self._listeners:
                listener(changes)

    def _name_cluster(self, image: ClusterImage) -> Sequence[ConditionalWrite]:
        if image.cluster_id:
            return []
        return [ConditionalWrite((absent(CLUSTER_ID),), (Put(CLUSTER_ID, _short(self._entropy.uuid()).encode()),))]


def _existing(image: ClusterImage, name: str) -> Topic:
    topic = image.topics.get(name)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
    return topic


def _own_configs(image: ClusterImage, broker_id: int | None) -> Mapping[str, str]:
    return image.default_broker_configs if broker_id is None else image.broker_configs.get(broker_id, {})


def _contended() -> RequestError:
    return RequestError(ErrorCode.REQUEST_TIMED_OUT, "The cluster's metadata is contended; try again.")


def _short(identifier: UUID) -> str:
    """Kafka writes identifiers in 22 characters."""
    return base64.urlsafe_b64encode(identifier.bytes).rstrip(b"=").decode()
