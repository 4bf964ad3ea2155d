"""Changes of a partition that an operator asked for: decided against the image, written by compare-and-swap."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.controller.election import ElectionRules
from headrace.controller.entries import Compare, PartitionState, Put, Transaction, partition_key
from headrace.controller.image import ClusterImage
from headrace.model.errors import ErrorCode, RequestError

if TYPE_CHECKING:
    from headrace.broker.app import Broker

Decide = Callable[[ClusterImage, PartitionState, ElectionRules], PartitionState]


async def change_partition(broker: "Broker", name: str, index: int, decide: Decide) -> None:
    """Write what `decide` makes of a partition; it is asked again when somebody else was faster.  Raises RequestError."""

    def transactions(image: ClusterImage) -> Sequence[Transaction]:
        state = image.partition(name, index)
        if state is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}.")
        after = decide(image, state, ElectionRules.of(broker.topics.config_of(name)))
        if after == state:
            return []
        key = partition_key(image.topics[name].topic_id, index)
        return [Transaction((Compare(key, image.mod_revision(key)),), (Put(key, after.to_value()),))]

    await broker.cluster.submit(transactions)
