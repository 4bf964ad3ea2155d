"""How far one follower has got, as its leader sees it from the follower's fetches."""

from dataclasses import replace

from headrace.declaring import dataclass

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class FollowerProgress:
    """Everything below `end_offset` is in the follower's log.

    `caught_up_at` is the last moment at which the follower is known to have had everything the leader had.  A follower that
    always fetches what was the end a moment ago is in sync, though it never sees the very end under steady load.
    """

    end_offset: int = -1
    start_offset: int = -1
    caught_up_at: float = NEVER
    fetched_at: float = NEVER
    leader_end_at_fetch: int = -1
    broker_epoch: int = -1

    def fetched(self, offset: int, start_offset: int, leader_end: int, now: float, broker_epoch: int) -> "FollowerProgress":
        """The follower asks for `offset` on: it has everything below."""
        caught_up_at = self.caught_up_at
        if offset >= leader_end:
            caught_up_at = now
        elif offset >= self.leader_end_at_fetch >= 0:
            caught_up_at = max(caught_up_at, self.fetched_at)
        return FollowerProgress(offset, start_offset, caught_up_at, now, leader_end, broker_epoch)

    def starting_over(self, now: float, in_sync: bool) -> "FollowerProgress":
        """The leader begins an epoch: what it knew is void.  Members of the in-sync set get the benefit of the doubt."""
        return replace(self, end_offset=-1, start_offset=-1, caught_up_at=now if in_sync else NEVER, leader_end_at_fetch=-1)

    def is_caught_up(self, leader_end: int, now: float, lag_time_max_s: float) -> bool:
        return self.end_offset == leader_end or now - self.caught_up_at <= lag_time_max_s
