"""What a run really went through: a fault counts where it takes effect, not where it was meant to happen."""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum

Tally = Counter[str]


class Fault(StrEnum):
    """What every few seeds must meet, or the rules that hold prove nothing."""

    FORGETFUL_CRASH = "crashes that forgot unsynced bytes"
    TORN_WRITE = "torn writes"
    PARTITION = "conversations held up by a partition"
    ONE_WAY_CUT = "conversations held up by a one-way cut"
    DELAY = "messages that took too long"
    REORDERING = "messages that overtook another connection's"
    CLOCK_SKEW = "lives of brokers whose clock was off by a second or more"
    SLOW_DISK = "slow turns of a disk"
    LOST_LEASE = "leases lost unfairly"
    EXPIRED_LEASE = "leases that ran out"


# What the story says of other faults, and of what the cluster does about them.
SIGNS = {
    "records acknowledged": " hears from broker ",
    "records read": " reads ",
    "transactions committed": " ended: committed",
    "transactions aborted": " ended: aborted",
    "leaderships taken up": " leads ",
    "kills": "is killed",
    "standstills": "stands still",
    "controlled shutdowns": "has stopped",
    "failed syncs": "is offline: flushing failed",
    "full disks": "is full",
    "flipped bits": "a bit of broker-",
    "replicas mended": "is set aside to be mended",
    "logs cut by their leader's epochs": "gives up [",
    "changes of in-sync sets": "in sync are now: ",
    "moves of partitions asked for": "is to move to",
    "unclean elections, where allowed": "unclean election: risky-",
    "topics made again": "is there again",
    "segments removed": "removed the segment",
    "topics compacted": "cleaned table-",
    "offset logs compacted": "cleaned __consumer_offsets-",
    "partitions taken in KIP-848 groups": "takes events-",
    "records that a share group accepted": " for group-queue: NONE",
    "consumers sent to a nearer replica": "is sent to ",
    "rights given": " may write ",
    "rights taken away": " may no longer write ",
}


def signs_of(story: Iterable[str]) -> Tally:
    """How often the story says each of the signs."""
    tally = Tally()
    for line in story:
        for name, sign in SIGNS.items():
            tally[name] += sign in line
    return tally


def missing(tally: Tally) -> list[str]:
    """Faults and signs that never came."""
    return [name for name in (*Fault, *SIGNS) if not tally[name]]


def counted(tally: Tally) -> Iterator[str]:
    """For people, a line for each."""
    for name in (*Fault, *SIGNS):
        yield f"{tally[name]:>8} {name}"
