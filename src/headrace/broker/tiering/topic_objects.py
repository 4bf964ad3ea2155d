"""What a topic is, beside its data in the store: for whoever has nothing but the store."""

import json

from headrace.broker.partitions.partition import Partition
from headrace.controller.image import CurrentImage
from headrace.objects.store import ObjectMissing, ObjectStore, WriteConflict
from headrace.tier.naming import TOPIC, topic_folder


class TopicObjects:
    """One object for each topic, written by the leader of its first partition."""

    def __init__(self, store: ObjectStore, cluster_id: str, image: CurrentImage) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._image = image
        self._written: dict[str, bytes] = {}

    async def write(self, partition: Partition) -> None:
        """Write what the topic is now, if the store does not have it.  Raises StoreError."""
        topic = self._image().topics_by_id.get(partition.topic_id)
        if topic is None or partition.identity.partition != 0:
            return
        key = topic_folder(self._cluster_id, topic.topic_id) + TOPIC
        document = {
            "version": 1,
            "name": topic.name,
            "topic_id": str(topic.topic_id),
            "partitions": topic.partition_count,
            "replication_factor": topic.replication_factor,
            "configs": dict(sorted(topic.configs.items())),
        }
        data = json.dumps(document, indent=1).encode()
        if self._written.get(key) == data:
            return
        try:
            there = await self._store.get(key)
            if there.data != data:
                await self._store.replace(key, data, there.version)
        except ObjectMissing:
            await self._store.replace(key, data, None)
        except WriteConflict:
            return
        self._written[key] = data
