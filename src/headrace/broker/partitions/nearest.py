"""Reading from a replica nearby (KIP-392): a consumer that says its rack is sent to a follower there, if one has what it wants.

Off unless `replica.selector.class` is set.  A follower serves what lies below its own high watermark, which trails the
leader's by at most one fetch.
"""

from typing import TYPE_CHECKING

from headrace.broker.cluster.leadership import FollowedLeadership
from headrace.broker.partitions.partition import Partition
from headrace.model.identity import NO_BROKER

if TYPE_CHECKING:
    from headrace.broker.app import Broker


def is_enabled(broker: "Broker") -> bool:
    return bool(broker.config["replica.selector.class"])


def nearer_replica(broker: "Broker", partition: Partition, rack: str, offset: int) -> int:
    """The follower in the consumer's rack that is furthest along and has the offset; NO_BROKER when the leader is as good."""
    if not rack or rack == broker.config["broker.rack"] or not is_enabled(broker):
        return NO_BROKER
    leadership = partition.leadership
    if not isinstance(leadership, FollowedLeadership):
        return NO_BROKER
    there = [
        (progress.end_offset, follower)
        for follower, progress in leadership.leader.followers.items()
        if follower in leadership.leader.in_sync and progress.end_offset >= offset and _rack_of(broker, follower) == rack
    ]
    return max(there)[1] if there else NO_BROKER


def _rack_of(broker: "Broker", broker_id: int) -> str | None:
    member = broker.image.brokers.get(broker_id)
    return member.rack if member is not None and not member.shutting_down else None


def require_readable(broker: "Broker", partition: Partition, current_epoch: int) -> None:
    """Raise unless a consumer may read here: from the leader, or (nearby reads on) from a follower of the same epoch."""
    # Who led and lost its lease follows nobody yet: others may long lead and have more, and it is no measure of what there is.
    if partition.is_leader or not is_enabled(broker) or partition.state.leader in (NO_BROKER, broker.broker_id):
        partition.require_leader(current_epoch)
    else:
        partition.require_epoch(current_epoch)
