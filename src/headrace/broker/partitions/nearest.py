"""Reading from a replica nearby (KIP-392): a consumer that says its rack is sent to a follower there, if one has what it wants.

Off unless `replica.selector.class` is set.  A follower serves what lies below its own high watermark, which trails the
leader's by at most one fetch.
"""

from headrace.broker.cluster.leadership import FollowedLeadership
from headrace.broker.partitions.partition import Partition
from headrace.controller.image import CurrentImage
from headrace.model.broker_settings import BrokerConfig
from headrace.model.identity import NO_BROKER


class NearbyReplicas:
    """Who may serve consumers besides leaders."""

    def __init__(self, config: BrokerConfig, image: CurrentImage, broker_id: int) -> None:
        self.is_enabled = bool(config["replica.selector.class"])
        self._rack: str | None = config["broker.rack"]
        self._image = image
        self._broker_id = broker_id

    def nearer_replica(self, partition: Partition, rack: str, offset: int) -> int:
        """The follower in the consumer's rack that is furthest along and has the offset; NO_BROKER when the leader is as good."""
        if not self.is_enabled or not rack or rack == self._rack:
            return NO_BROKER
        leadership = partition.leadership
        if not isinstance(leadership, FollowedLeadership):
            return NO_BROKER
        there = [
            (progress.end_offset, follower)
            for follower, progress in leadership.leader.followers.items()
            if follower in leadership.leader.in_sync and progress.end_offset >= offset and self._rack_of(follower) == rack
        ]
        return max(there)[1] if there else NO_BROKER

    def _rack_of(self, broker_id: int) -> str | None:
        member = self._image().brokers.get(broker_id)
        return member.rack if member is not None and not member.shutting_down else None

    def require_readable(self, partition: Partition, current_epoch: int) -> None:
        """Raise unless a consumer may read here: from the leader, or (nearby reads on) from a follower of the same epoch."""
        # Who led and lost its lease follows nobody yet: others may lead and have more, and it is no measure of what is there.
        if partition.is_leader or not self.is_enabled or partition.state.leader in (NO_BROKER, self._broker_id):
            partition.require_leader(current_epoch)
        else:
            partition.require_epoch(current_epoch)
