"""The part of one replica's log that is in the store, as this broker knows it: for readers, for followers, for who tends it.

Every replica has one, not only the leader's: a follower may read from it, and may be asked to lead at any time."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.broker.fetching.remote import Beginning, RemoteRead
from headrace.broker.partitions.partition import Partition
from headrace.broker.tiering.manifests import ManifestObject
from headrace.broker.tiering.reading import Brought, RemoteReader
from headrace.log.epochs import EpochStart
from headrace.log.producers.producer_snapshot import decode_snapshot
from headrace.log.results import AbortedTransaction, FoundOffset
from headrace.model.errors import ErrorCode, RequestError
from headrace.objects.store import ObjectMissing, StoreError
from headrace.tier.batches import trimmed
from headrace.tier.companions import PRODUCERS
from headrace.tier.manifest import Manifest

logger = logging.getLogger(__name__)

Run = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class RemotePart:
    """What is in the store of one partition."""

    def __init__(self, partition: Partition, folder: str, manifest: ManifestObject, reader: RemoteReader, run: Run) -> None:
        self.partition = partition
        self.folder = folder
        self.manifest = manifest
        # The epoch for which this broker has claimed the manifest.
        self.claimed_epoch = -1
        self.swept_at = float("-inf")
        # What is to be uploaded and is not yet: bytes, and since when; by who tends it.
        self.behind_bytes = 0
        self.behind_since: float | None = None
        self.failure: str | None = None
        # Of a log that began with nothing: whether it is known what the store has of it.
        self.is_looked_up = False
        self.is_being_looked_up = False
        self._reader = reader
        self._run = run
        self._bringing: dict[int, asyncio.Task[None]] = {}

    def __repr__(self) -> str:
        return f"<remote part of {self.partition.identity}>"

    @property
    def known(self) -> Manifest | None:
        """The manifest as it was last seen."""
        return self.manifest.seen

    @property
    def end_offset(self) -> int:
        """Up to here the store has everything; -1 where it has nothing, or nobody has looked yet."""
        return self.known.end_offset if self.known is not None else -1

    # -- for fetches

    def take(self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool) -> RemoteRead | None:
        """What was brought; None while it is on its way.  Raises RequestError when it cannot be."""
        brought = self._reader.brought.get((self, offset))
        if brought is None:
            return None
        if isinstance(brought, ErrorCode):
            self._reader.brought.forget((self, offset))
            raise RequestError(brought)
        data, following = trimmed(brought.data, max_bytes, up_to, at_least_one=at_least_one)
        aborted = tuple(AbortedTransaction(each.producer_id, each.first_offset) for each in brought.aborted)
        return RemoteRead(data, following if data else offset, aborted, brought.aborted_are_all)

    def bring(self, offset: int, size: int) -> "asyncio.Task[None]":
        """Have records brought from an offset on; who asks for the same shares it."""
        task = self._bringing.get(offset)
        if task is None:
            task = self._bringing[offset] = self._run(self._bring(offset, size))
            task.add_done_callback(lambda _: self._bringing.pop(offset, None))
        return task

    async def _bring(self, offset: int, size: int) -> None:
        try:
            brought = await self._bring_from_what_is_known(offset, size)
        except StoreError as error:
            logger.warning("%s: reading offset %d from the object store: %s", self.partition.identity, offset, error)
            self._keep(offset, ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            self._keep(offset, ErrorCode.OFFSET_OUT_OF_RANGE if brought is None else brought)

    async def _bring_from_what_is_known(self, offset: int, size: int) -> Brought | None:
        manifest = self.known or await self.manifest.read()
        try:
            brought = await self._reader.bring(manifest, offset, size)
        except ObjectMissing:
            brought = None
        if brought is not None or self.claimed_epoch == self.partition.leader_epoch:
            return brought
        # Others may know of more, or of less, than was known here: what was removed since lies before the log's start.
        return await self._reader.bring(await self.manifest.read(), offset, size)

    def _keep(self, offset: int, brought: Brought | ErrorCode) -> None:
        self._reader.brought.keep((self, offset), brought, len(brought.data) if isinstance(brought, Brought) else 0)

    # -- for ListOffsets

    async def find(self, timestamp: int | None) -> FoundOffset | None:
        """The first record at or after a time among those that are in the store alone; without a time, that with the greatest.

        Raises RequestError."""
        state = self.partition.log.state
        if state.local_start <= state.start_offset:
            return None
        try:
            manifest = self.known or await self.manifest.read()
            wanted = _greatest(manifest, state.local_start) if timestamp is None else timestamp
            if wanted < 0:
                return None
            found = await self._reader.find_time(manifest, wanted, state.start_offset, state.local_start)
        except StoreError as error:
            logger.warning("%s: looking for a time in the object store: %s", self.partition.identity, error)
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        return None if found is None else FoundOffset(*found)

    # -- for followers

    async def beginning(self) -> Beginning | None:
        """Where a follower without the older records begins; None where the store has nothing, or does not answer."""
        try:
            return await self.behind(await self.manifest.read())
        except StoreError as error:
            logger.warning("%s: where it goes on is in the object store: %s", self.partition.identity, error)
            return None

    async def behind(self, manifest: Manifest) -> Beginning | None:
        """Where a log goes on behind a manifest; None where that names nothing.  Raises StoreError."""
        if not manifest.segments:
            return None
        last = manifest.segments[-1]
        rest = await self._reader.companions_of(last)
        epochs = [EpochStart(epoch, start) for epoch, start in manifest.epochs()]
        # Of one that was cut since, the producers are known as they were later.
        producers = decode_snapshot(rest[PRODUCERS]) if PRODUCERS in rest and last.file_end == last.end_offset else []
        return Beginning(last.end_offset, epochs, producers)


def _greatest(manifest: Manifest, end: int) -> int:
    return max((segment.max_timestamp for segment in manifest.segments if segment.start_offset < end), default=-1)
