"""Unclean elections are counted in the write that makes them, and none is lost when two are made at once."""

import asyncio

from headrace.controller.election import Cleanliness, Elected
from headrace.controller.entries import ConditionalWrite, PartitionState, Put
from headrace.controller.image import ClusterImage
from headrace.controller.unclean import PartitionElected, counted
from headrace.metadata.memory import MemoryStore

LED_BY_2 = PartitionState(replicas=(1, 2), leader=2, isr=(2,))


def election(image: ClusterImage, index: int) -> ConditionalWrite:
    decided = PartitionElected("t", index, Elected(LED_BY_2, Cleanliness.UNCLEAN))
    return counted(image, ConditionalWrite((), (Put(f"leader-{index}", b"2"),)), [decided], 1000 + index)


def test_of_two_elections_at_once_the_slower_is_decided_again_and_both_count() -> None:
    async def story() -> None:
        store = MemoryStore()

        async def image() -> ClusterImage:
            listing = await store.list("")
            return ClusterImage.from_items([item for item in listing.items if "leader" not in item.key], listing.revision)

        async def succeeds(write: ConditionalWrite) -> bool:
            return (await store.transact(write.conditions, write.operations)).succeeded

        for count in (1, 3):  # the first ever, and one after others
            seen_by_both = await image()
            assert await succeeds(election(seen_by_both, 0))
            assert not await succeeds(election(seen_by_both, 1)), "it would undo the other's count"
            assert (await image()).unclean_elections.count == count
            assert await succeeds(election(await image(), 1))

        after = (await image()).unclean_elections
        assert after.count == 4
        assert after.last is not None
        assert after.last.partition == 1

    asyncio.run(story())
