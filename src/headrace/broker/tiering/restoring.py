"""A log that was lost, from what the store has of it: the next record follows the last one there, and nothing is copied.

The store may know the partition under its own topic's id, when a broker lost its disk; or under that of a topic of a cluster that
is gone (`headrace.remote.from`, which `headrace recover` sets).  Such a manifest is taken over for good: its old owners, should
they ever come back, find it claimed by an epoch that nobody reaches."""

import logging
from dataclasses import replace
from typing import Final

from headrace.broker.housekeeping.file_removal import FileRemoval
from headrace.broker.tiering.manifests import ManifestObject
from headrace.broker.tiering.remote_part import RemotePart
from headrace.log.log import Log
from headrace.model.tier.lost_topic import LostTopic
from headrace.objects.store import ObjectStore, StoreAway
from headrace.tier.manifest import Manifest

logger = logging.getLogger(__name__)

EPOCH_OF_NOBODY: Final = 2**31 - 1


class Restoring:
    """Begins logs behind what the store has of them."""

    def __init__(self, store: ObjectStore, removal: FileRemoval) -> None:
        self._store = store
        self._removal = removal

    async def restore(self, part: RemotePart, log: Log) -> None:
        """Look for what the store has, and go on behind it.  Raises StoreError, StorageError."""
        manifest = await part.manifest.read()
        if not manifest.segments and log.config.remote_from:
            manifest = await self._take_over(part, LostTopic.parse(log.config.remote_from).folder)
        beginning = await part.behind(manifest)
        if beginning is not None and log.end_offset == 0:
            self._removal.unlink_soon(log.truncate_fully_and_start_at(beginning.offset))
            log.continue_remote(beginning.epochs, beginning.producers)
            part.partition.on_truncated()
            logger.info("%s: goes on at %d, behind what the object store has", part.partition.identity, beginning.offset)
        part.is_looked_up = True

    async def _take_over(self, part: RemotePart, source: str) -> Manifest:
        topic, index = part.partition.identity
        other = ManifestObject(self._store, f"{source.rstrip('/')}/{index}/", topic, index)
        theirs = await other.change(lambda manifest: _taken_by(part.folder, manifest))
        own = await part.manifest.change(
            lambda own: own if own.segments else replace(theirs, topic=topic, partition=index, leader_epoch=-1, revision=1)
        )
        # What one manifest names, no other does.
        await other.change(lambda manifest: manifest.successor(segments=()) if manifest.segments else manifest)
        return own


def _taken_by(folder: str, manifest: Manifest) -> Manifest:
    """One that was taken by somebody else stays theirs."""
    if manifest.leader_epoch != EPOCH_OF_NOBODY:
        return manifest.successor(leader_epoch=EPOCH_OF_NOBODY, topic=folder)
    if manifest.topic != folder:
        raise StoreAway(f"its records were taken over by {manifest.topic}")
    return manifest
