"""Users of a broker that is not running: somebody has to be the first who can sign in."""

import secrets
from pathlib import Path

from headrace.broker.cluster.metadata_store import FILE_NAME
from headrace.broker.partitions.storage import DiskStorage
from headrace.controller.access.scram_credentials import Alteration, Upsertion, alter_scram_credentials
from headrace.controller.image import ClusterImage
from headrace.host.clock import SystemClock
from headrace.host.disk import SystemDisk
from headrace.metadata.sqlite import SqliteStore
from headrace.model.access.scram import ITERATIONS_MIN, SALT_BYTES, ScramMechanism, salted_password
from headrace.model.errors import RequestError


async def store_user(data: Path, name: str, password: str) -> None:
    """Set what is kept of a user's password in a data directory.  Raises RequestError, or StorageError while a broker runs."""
    storage = DiskStorage(data, SystemDisk(), SystemClock())
    try:
        store = await SqliteStore.open(data / FILE_NAME)
        try:
            listing = await store.list("")
            image = ClusterImage.from_items(listing.items, listing.revision)
            write = alter_scram_credentials(image, _upsertions(name, password))[name]
            if isinstance(write, RequestError):
                raise write
            await store.transact(write.conditions, write.operations)
        finally:
            await store.close()
    finally:
        storage.release()


def _upsertions(name: str, password: str) -> list[Alteration]:
    found: list[Alteration] = []
    for mechanism in ScramMechanism:
        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, password, salt, ITERATIONS_MIN)
        found.append(
            Upsertion(user=name, mechanism=mechanism, iterations=ITERATIONS_MIN, salt=salt, salted_password=salted),
        )
    return found
