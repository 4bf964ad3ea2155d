"""What a follower does with its leader's answers, and how two logs find where they part (KIP-101, KIP-279, KIP-320, KIP-595).

Logs are compared by leader epoch, never by high watermark.  A fetch names the offset it wants and the epoch of the record before
it; a leader that knows that epoch to end earlier answers with the last epoch it shares and where that ends, and the follower
truncates to there and asks again.
"""

from enum import Enum
from typing import Protocol

from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_EPOCH, NO_OFFSET


class Epochs(Protocol):
    """What a log knows of leader epochs."""

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch not above the one asked for, and where it ended; (-1, -1) when that is newer than all known.

        One that is older than all known ended where the oldest known begins.
        """
        ...


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The largest epoch not above the one asked for, and the offset at which it ends."""

    epoch: int
    end_offset: int


def divergence(epochs: Epochs, fetch_offset: int, last_fetched_epoch: int) -> EpochEnd | None:
    """On the leader: where a reader's log parts from ours, or None when it is a prefix of ours.

    Raises RequestError when the reader knows of an epoch that we do not."""
    if last_fetched_epoch < 0:
        return None
    end = EpochEnd(*epochs.end_offset_for(last_fetched_epoch))
    if end.epoch == NO_EPOCH:
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
        return end
    return None


def truncation_point(epochs: Epochs, end_offset: int, leader_end: EpochEnd) -> int:
    """On the follower: where to cut, given the leader's last shared epoch and its end there."""
    own = EpochEnd(*epochs.end_offset_for(leader_end.epoch))
    if own.epoch == NO_EPOCH:
        return min(leader_end.end_offset, end_offset)
    if own.epoch < leader_end.epoch:
        # We never had that epoch: cut to the end of the one before, and the next answer narrows it down further (KIP-279).
        return min(own.end_offset, end_offset)
    return min(own.end_offset, leader_end.end_offset, end_offset)


class Next(Enum):
    """What a follower does after an answer."""

    APPEND = "append"
    TRUNCATE = "truncate"
    GO_ON_BEHIND_REMOTE = "go on behind remote"  # drop everything and begin behind what is in an object store (KIP-405)
    START_OVER = "start over"  # drop everything and begin where the leader's log begins
    WAIT_FOR_METADATA = "wait for metadata"  # the leader, or the epoch, has changed
    BACK_OFF = "back off"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """The part of a Fetch response that decides, for one partition."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    diverging: EpochEnd | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What to do, and with which offset."""

    next: Next
    offset: int = NO_OFFSET


WAIT_FOR_METADATA_ERRORS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


def next_step(answer: FetchAnswer, epochs: Epochs, start_offset: int, end_offset: int) -> Step:
    """Decide what a follower with this log does with the answer to a fetch at its end."""
    if answer.error is ErrorCode.NONE:
        if answer.diverging is not None:
            return Step(Next.TRUNCATE, max(start_offset, truncation_point(epochs, end_offset, answer.diverging)))
        return Step(Next.APPEND)
    if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
        return Step(Next.START_OVER)
    if answer.error is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
        return Step(Next.GO_ON_BEHIND_REMOTE)
    if answer.error in WAIT_FOR_METADATA_ERRORS:
        return Step(Next.WAIT_FOR_METADATA)
    # UNKNOWN_LEADER_EPOCH: the leader has yet to hear of its own election.  A disk that failed there may come back.
    return Step(Next.BACK_OFF)


def after_out_of_range(end_offset: int, leader_start: int, leader_end: int) -> Step:
    """The leader does not have the offset asked for.

    A leader whose log ends before ours was elected uncleanly, and epochs could not tell: ours is cut to its end.  A leader whose
    log begins after our end has dropped what we lack: we begin where it begins.
    """
    if leader_end < end_offset:
        return Step(Next.TRUNCATE, leader_end)
    return Step(Next.START_OVER, leader_start)


def watermark_after(leader_high_watermark: int, end_offset: int, high_watermark: int) -> int:
    """The follower's high watermark: the leader's, as far as the follower has got.  It never goes back within an epoch."""
    return max(high_watermark, min(leader_high_watermark, end_offset))
