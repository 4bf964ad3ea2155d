"""What objects are called in the store.

    <cluster id>/<topic id>/topic.json                          what the topic was, for whoever has only the store
    <cluster id>/<topic id>/<partition>/manifest.json           what the partition has in the store
    <cluster id>/<topic id>/<partition>/<base>-<epoch>-<unique>.log and .rest

Always: a name is used once.  An object that was deleted never comes back, so a request that arrives late harms nothing; and the
epoch in it is that of the leader that made it, so everybody sees whose it is.
"""

from typing import Final, NamedTuple
from uuid import UUID

MANIFEST: Final = "manifest.json"
TOPIC: Final = "topic.json"
DELETED: Final = "deleted.json"
DATA_SUFFIX: Final = ".log"
REST_SUFFIX: Final = ".rest"


class ObjectName(NamedTuple):
    """What the name of a segment's object tells."""

    base_offset: int
    leader_epoch: int
    unique: str
    suffix: str


def topic_folder(cluster_id: str, topic_id: UUID) -> str:
    return f"{cluster_id}/{topic_id}/"


def partition_folder(cluster_id: str, topic_id: UUID, partition: int) -> str:
    return f"{topic_folder(cluster_id, topic_id)}{partition}/"


def object_name(base_offset: int, leader_epoch: int, unique: str, suffix: str) -> str:
    return f"{base_offset:020d}-{leader_epoch}-{unique}{suffix}"


def parse_object_name(key: str) -> ObjectName | None:
    """What an object's name tells; None for what is no part of a segment."""
    name = key.rpartition("/")[2]
    for suffix in (DATA_SUFFIX, REST_SUFFIX):
        if name.endswith(suffix):
            base, _, rest = name.removesuffix(suffix).partition("-")
            epoch, _, unique = rest.partition("-")
            if base.isdecimal() and epoch.isdecimal() and unique:
                return ObjectName(int(base), int(epoch), unique, suffix)
    return None


def parse_topic_id(folder: str) -> UUID | None:
    """The topic whose folder this is; None for every other name."""
    try:
        return UUID(folder.rstrip("/").rpartition("/")[2])
    except ValueError:
        return None
