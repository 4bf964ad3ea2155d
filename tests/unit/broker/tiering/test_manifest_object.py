"""Of two leaders one has the manifest; answers that are lost do no harm."""

import asyncio

import pytest

from headrace.broker.tiering.manifests import ManifestObject
from headrace.log.epochs import EpochCache, EpochStart
from headrace.objects.store import StoreAway
from headrace.tier.plan import Deposed, begun_at, claim, written_again
from tests.support.faulty_objects import Fault, MemoryObjects

FOLDER = "c/t/0/"


def manifest_of(objects: MemoryObjects) -> ManifestObject:
    return ManifestObject(objects, FOLDER, "t", 0)


def epochs() -> EpochCache:
    return EpochCache(lambda: 100, [EpochStart(0, 0)])


def test_a_leader_that_was_deposed_cannot_replace_the_manifest_of_the_next() -> None:
    async def story() -> None:
        objects = MemoryObjects()
        old, new = manifest_of(objects), manifest_of(objects)
        await old.change(lambda manifest: claim(manifest, 1, epochs()))
        claimed = await new.change(lambda manifest: claim(manifest, 2, epochs()))

        with pytest.raises(Deposed):
            await old.change(lambda manifest: begun_at(manifest, 1, 50))

        assert await new.read() == claimed

    asyncio.run(story())


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_write_without_an_answer_is_settled_by_the_next_read(fault: Fault) -> None:
    async def story() -> None:
        objects = MemoryObjects()
        manifest = manifest_of(objects)
        await manifest.change(lambda before: claim(before, 1, epochs()))
        objects.fault = lambda call, key: fault if call == "replace" else Fault.NONE
        with pytest.raises(StoreAway):
            await manifest.change(lambda before: begun_at(before, 1, 50))
        objects.fault = lambda call, key: Fault.NONE

        after = await manifest.change(lambda before: begun_at(before, 1, 50))

        assert after.log_start == 50
        assert after.revision == 2, "it was not written twice"

    asyncio.run(story())


def test_a_manifest_that_cannot_be_read_is_never_written_over() -> None:
    async def story() -> None:
        objects = MemoryObjects()
        objects.objects[f"{FOLDER}manifest.json"] = b"garbage", 1
        with pytest.raises(StoreAway, match="cannot be read"):
            await manifest_of(objects).change(lambda manifest: written_again(manifest, -1))

        assert objects.objects[f"{FOLDER}manifest.json"][0] == b"garbage"

    asyncio.run(story())
