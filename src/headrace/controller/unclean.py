"""How often a partition was given to a leader that may lack what was committed: counted in the store, for good.

The count is part of the very write that names the leader, and is compared like it.  So an election counts when it happened
and not when it was tried: one that came to nothing, or that is decided again since its answer was lost, adds nothing; and whoever
becomes controller next finds the count as it was.
"""

from collections.abc import Sequence

from headrace.controller.election import Cleanliness, Elected
from headrace.controller.entries import UNCLEAN_ELECTIONS, Compare, ConditionalWrite, Put, UncleanElection, UncleanElections
from headrace.controller.image import ClusterImage
from headrace.declaring import dataclass


@dataclass(frozen=True, slots=True)
class PartitionElected:
    """What was decided for one partition."""

    topic: str
    index: int
    elected: Elected


def unclean_ones(decided: Sequence[PartitionElected]) -> list[PartitionElected]:
    return [each for each in decided if each.elected.cleanliness is Cleanliness.UNCLEAN]


def counted(image: ClusterImage, write: ConditionalWrite, decided: Sequence[PartitionElected], now_ms: int) -> ConditionalWrite:
    """The same write, which also counts what is unclean in it."""
    unclean = unclean_ones(decided)
    if not unclean:
        return write
    last = unclean[-1]
    after = UncleanElections(
        count=image.unclean_elections.count + len(unclean),
        last=UncleanElection(topic=last.topic, partition=last.index, leader=last.elected.state.leader, at_ms=now_ms),
    )
    return ConditionalWrite(
        (*write.conditions, Compare(UNCLEAN_ELECTIONS, image.mod_revision(UNCLEAN_ELECTIONS))),
        (*write.operations, Put(UNCLEAN_ELECTIONS, after.to_value())),
    )
