"""What is left of topics that are gone leaves the store, unless another topic goes on with it."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from headrace.broker.tiering.sweeping import Sweeper
from headrace.broker.tiering.tending import Tending
from headrace.controller.image import ClusterImage, Topic
from headrace.model.tier.lost_topic import LostTopic
from tests.support.faulty_objects import MemoryObjects

GONE, NEW = UUID(int=1), UUID(int=2)


class Deleting:
    """As much of tending as sweeping needs."""

    def __init__(self, objects: MemoryObjects) -> None:
        self._objects = objects

    async def delete(self, keys: frozenset[str]) -> None:
        for key in keys:
            await self._objects.delete(key)


@pytest.mark.parametrize("is_recovered", [False, True])
def test_the_folder_of_a_deleted_topic_stays_for_a_topic_that_was_recovered_from_it(is_recovered: bool) -> None:
    image, objects = ClusterImage(cluster_id="c"), MemoryObjects()
    configs = {LostTopic.SETTING: str(LostTopic(f"c/{GONE}", 7))} if is_recovered else {}
    image.topics["t"] = image.topics_by_id[NEW] = Topic("t", NEW, configs, [])
    key = f"c/{GONE}/0/00000000000000000000-3-x.log"

    async def sweep() -> int:
        await objects.replace(key, b"records", None)
        sweeper = Sweeper(cast(Any, objects), cast(Tending, Deleting(objects)), "c", lambda: image, lambda: 0)
        return await sweeper.sweep_topics()

    assert asyncio.run(sweep()) == (0 if is_recovered else 1)
    assert (key in objects.objects) == is_recovered
