"""Changes of a partition that an operator asked for: decided against the image, written by compare-and-swap."""

import logging
from collections.abc import Callable, Sequence

from headrace.controller.election import Elected, ElectionRules
from headrace.controller.entries import Compare, ConditionalWrite, PartitionState, Put, partition_key
from headrace.controller.image import ClusterImage
from headrace.controller.unclean import PartitionElected, counted, unclean_ones
from headrace.host.clock import Clock
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig

logger = logging.getLogger(__name__)


class PartitionChanges:
    """Writes what somebody decides about single partitions."""

    def __init__(self, cluster: ClusterMetadata, config_of: Callable[[str], LogConfig], clock: Clock) -> None:
        self._cluster = cluster
        self._config_of = config_of
        self._clock = clock

    async def change(
        self, name: str, index: int, elect: Callable[[ClusterImage, PartitionState, ElectionRules], Elected]
    ) -> None:
        """Write what `elect` makes of a partition; it is asked again when somebody else was faster.  Raises RequestError."""
        decided: list[PartitionElected] = []

        def writes(image: ClusterImage) -> Sequence[ConditionalWrite]:
            state = image.partition(name, index)
            if state is None:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}.")
            elected = elect(image, state, ElectionRules.of(self._config_of(name)))
            decided.clear()
            if elected.state == state:
                return []
            decided.append(PartitionElected(name, index, elected))
            key = partition_key(image.topics[name].topic_id, index)
            change = ConditionalWrite((Compare(key, image.mod_revision(key)),), (Put(key, elected.state.to_value()),))
            return [counted(image, change, decided, self._clock.wall_ms())]

        await self._cluster.submit(writes)
        tell_unclean(unclean_ones(decided))


def tell_unclean(elections: Sequence[PartitionElected]) -> None:
    """After they were written: whoever reads the log must be able to count them there, too."""
    for each in elections:
        leader = each.elected.state.leader
        logger.error("unclean election: %s-%d is led by %d; records may be lost", each.topic, each.index, leader)
