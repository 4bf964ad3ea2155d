"""One partition's manifest in the store: read, claimed for an epoch, and changed, so that of two leaders one loses.

A change is a function of the manifest that is there.  It is tried on what this broker has last seen, and again on what is there
when that was not it any more; of a write that got no answer nobody knows, and the next read tells."""

from collections.abc import Callable

from headrace.objects.store import ObjectMissing, ObjectStore, StoreAway, WriteConflict
from headrace.tier.manifest import Manifest, ManifestBroken, decode_manifest, encode_manifest
from headrace.tier.naming import MANIFEST

CONFLICTS_MAX = 10

Change = Callable[[Manifest], Manifest]


class ManifestObject:
    """The manifest of one partition."""

    def __init__(self, store: ObjectStore, folder: str, topic: str, partition: int) -> None:
        self._store = store
        self._key = folder + MANIFEST
        self._empty = Manifest(topic=topic, partition=partition)
        # What the store had when it was last looked at; None before that.  `version` is None where there was nothing.
        self.seen: Manifest | None = None
        self._version: str | None = None
        # Whether that may still be what is there.
        self._is_sure = False
        # By the store's clock, which alone tells how old objects are.
        self.modified_ms = 0

    async def read(self) -> Manifest:
        """What is there; one without anything where there is none."""
        try:
            stored = await self._store.get(self._key)
        except ObjectMissing:
            self.seen, self._version, self._is_sure = self._empty, None, True
            return self.seen
        try:
            self.seen = decode_manifest(stored.data)
        except (ManifestBroken, ValueError, KeyError) as error:
            # Nobody writes over what nobody understands.
            raise StoreAway(f"{self._key} cannot be read: {error}") from error
        self._version, self.modified_ms, self._is_sure = stored.version, stored.modified_ms, True
        return self.seen

    async def change(self, change: Change) -> Manifest:
        """Write what a function makes of it, unless it leaves it as it is; then read it back.  What the function raises goes
        to the caller."""
        for _ in range(CONFLICTS_MAX):
            before = self.seen if self._is_sure and self.seen is not None else await self.read()
            after = change(before)
            if after is before:
                return before
            self._is_sure = False
            try:
                await self._store.replace(self._key, encode_manifest(after), self._version)
            except WriteConflict:
                continue
            if await self.read() == after:
                return after
            # Somebody was there in the short time between: the function sees it first.
        raise StoreAway(f"{self._key} is written by somebody else all the time")
