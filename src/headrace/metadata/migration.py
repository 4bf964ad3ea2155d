"""From one store to another: how a single node becomes the first member of a cluster.

The cluster's id is written last, so that an import that was interrupted restarts, and one that is finished does not.
A store that already belongs to another cluster is refused: its topics and ours must not be mixed.
"""

from headrace.controller.entries import (
    ADMITTED,
    BROKERS,
    CLUSTER_ID,
    CONTROLLER,
    CREATIONS,
    TOPICS,
    KeyValue,
    Put,
    absent,
)
from headrace.metadata.store import MetadataStore, StoreRefused

# These tell of processes and of work under way, not of what is kept.
LEFT_BEHIND = (BROKERS, ADMITTED, CREATIONS)


class OtherCluster(StoreRefused):
    """The two stores belong to different clusters."""


async def import_metadata(source: MetadataStore, target: MetadataStore) -> bool:
    """Copy everything that lasts; False when the target has it already.  Raises OtherCluster."""
    ours, theirs = await source.get(CLUSTER_ID), await target.get(CLUSTER_ID)
    if ours is None:
        return False
    if theirs is not None:
        if theirs.value != ours.value:
            raise OtherCluster(
                f"the metadata store belongs to cluster {theirs.value.decode()}, this data directory to {ours.value.decode()}"
            )
        return False
    items = [item for item in (await source.list("")).items if _is_kept(item)]
    # Topics after their partitions, as when they were made.
    items.sort(key=lambda item: item.key.startswith(TOPICS))
    for start in range(0, len(items), target.operations_max):
        await target.transact([], [Put(item.key, item.value) for item in items[start : start + target.operations_max]])
    result = await target.transact([absent(CLUSTER_ID)], [Put(CLUSTER_ID, ours.value)])
    if not result.succeeded:
        raise OtherCluster("another broker named the cluster meanwhile; start again")
    return True


def _is_kept(item: KeyValue) -> bool:
    return item.key not in (CLUSTER_ID, CONTROLLER) and not item.key.startswith(LEFT_BEHIND) and not item.lease
