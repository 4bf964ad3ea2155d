"""Objects that nobody needs: a leader looks for them in the folders of its partitions, the controller's broker in those of topics
that are gone.

A deleted topic's folder is marked first; when the mark is old enough, by the store's clock, the manifests go, and then all that
they named."""

import json
import logging
from collections.abc import Callable

from headrace.broker.tiering.remote_part import RemotePart
from headrace.broker.tiering.tending import Tending, own_manifest
from headrace.controller.image import CurrentImage
from headrace.model.tier.lost_topic import LostTopic
from headrace.objects.store import ObjectMissing, ObjectStore, WriteConflict
from headrace.tier.naming import DELETED, MANIFEST, parse_topic_id
from headrace.tier.plan import written_again
from headrace.tier.sweeping import Listed, orphans

logger = logging.getLogger(__name__)


class Sweeper:
    """Deletes what no manifest names."""

    def __init__(
        self, store: ObjectStore, tending: Tending, cluster_id: str, image: CurrentImage, grace_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._tending = tending
        self._cluster_id = cluster_id
        self._image = image
        self._grace_ms = grace_ms

    async def sweep_partition(self, part: RemotePart) -> int:
        """What uploads and deletions left behind that were cut short; how much that was.  Raises StoreError, Deposed."""
        epoch = part.partition.leader_epoch
        own_manifest(part, epoch)
        # The list first: whatever comes later is not in it.  Then the manifest once more: what is on its way is refused.
        listed = [Listed(*each) for each in await self._store.listed(part.folder)]
        manifest = await part.manifest.change(lambda manifest: written_again(manifest, epoch))
        found = orphans(listed, own_manifest(part, epoch), epoch, part.manifest.modified_ms, self._grace_ms())
        assert not manifest.objects.intersection(found), "what a manifest names is no orphan"
        if found:
            logger.info("%s: %d objects in the store are named nowhere; they go", part.partition.identity, len(found))
            await self._tending.delete(frozenset(found))
        return len(found)

    async def sweep_topics(self) -> int:
        """Topics that are gone; how many folders went."""
        gone = 0
        for folder in await self._store.folders(f"{self._cluster_id}/"):
            topic_id = parse_topic_id(folder)
            if topic_id is not None and topic_id not in self._image().topics_by_id and folder not in self._recovered():
                gone += await self._sweep_topic(folder)
        return gone

    def _recovered(self) -> set[str]:
        """The folders whose objects belong to topics that go on where those ended."""
        topics = self._image().topics.values()
        origins = [origin for topic in topics if (origin := topic.configs.get(LostTopic.SETTING))]
        return {f"{LostTopic.parse(origin).folder.rstrip('/')}/" for origin in origins}

    async def _sweep_topic(self, folder: str) -> int:
        mark = folder + DELETED
        try:
            since = (await self._store.get(mark)).modified_ms
        except ObjectMissing:
            try:
                await self._store.replace(mark, json.dumps({"deleted": True}).encode(), None)
            except WriteConflict:
                return 0
            since = (await self._store.get(mark)).modified_ms
        if await self._now_ms(folder) - since < self._grace_ms():
            return 0
        listed = await self._store.listed(folder)
        logger.info("the topic of %s was deleted; its %d objects in the store go", folder, len(listed))
        # The manifests first: from then on nothing is named, and nobody who comes late can change them.
        manifests = [each.key for each in listed if each.key.endswith(f"/{MANIFEST}")]
        others = [each.key for each in listed if each.key not in manifests and each.key != mark]
        for key in [*manifests, *others, mark]:
            await self._tending.delete(frozenset({key}))
        return 1

    async def _now_ms(self, folder: str) -> int:
        """What time it is for the store."""
        probe = folder + "now.json"
        await self._store.delete(probe)
        await self._store.replace(probe, b"{}", None)
        stored = await self._store.get(probe)
        await self._store.delete(probe)
        return stored.modified_ms
