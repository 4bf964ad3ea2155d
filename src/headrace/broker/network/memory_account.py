"""The memory that all connections share: how much of it each may take, and who waits for it.

Counted are bytes that are really held: of requests (arriving, queued, under way) and of replies (made, and not yet taken by the
socket).  A connection has a `Share`; it tells the share what it holds (`settle`) and asks before it holds more.

- Fair: a connection may take more as long as it does not hold more than is left over for everybody else.  One alone gets half of
  the memory, n of them an (n+1)th each.  A part is kept for small requests and replies: they may fill it whatever the large
  ones hold, even beyond the bound, and they wait in a line of their own.
- Half-received requests cannot wait for each other: those that are refused stand in a line, and one at a time has the turn, which
  lets it go beyond the bound until its request is complete.  So at most one request's size is held beyond the bound.
- A reply that is not made yet holds nothing.  It waits in a line of its own, first come, first served, until there is `enough`
  for it, and those who wait are given equal parts.

Nothing here knows of sockets or of time: who is too slow is for the server to see, and `is_short` tells it when that matters.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

# A reply is made when there is room for this much of it, or for all of it; the protocol has it carry one batch at least.
ENOUGH_BYTES = 1024 * 1024
# A connection that holds no more than this is small: it may take what is kept free for such, and its replies do not line up
# behind larger ones.
SMALL_BYTES = 256 * 1024
# Of the memory, the part that is kept for the small, and the part that requests leave to replies.
KEPT_FOR_SMALL = 16
KEPT_FOR_REPLIES = 4


class _Place(NamedTuple):
    """A place in a line: how much is wanted, and who is told when there is room."""

    wanted: int
    on_room: Callable[[], None]


class MemoryAccount:
    """What is held, by all connections together, and the lines of those who wait to hold more."""

    def __init__(
        self, limit: int, call_soon: Callable[[Callable[[], None]], object], *, requests_limit: int | None = None
    ) -> None:
        self.limit = limit
        self.requests_limit = min(limit, requests_limit or max(1, limit - limit // KEPT_FOR_REPLIES))
        self.requests = 0
        self.replies = 0
        # Of both, what those connections hold that are small.
        self.held_by_small = 0
        # Whether replies alone fill the memory: those whose size nobody could know before they were made.
        self.is_flooded = False
        self._kept_for_small = limit // KEPT_FOR_SMALL
        self._small = min(SMALL_BYTES, self._kept_for_small)
        self._enough = min(ENOUGH_BYTES, max(1, limit // 8))
        self._call_soon = call_soon
        self._serving = False
        self._turn: Share | None = None
        self._receivers: OrderedDict[Share, _Place] = OrderedDict()
        self._small_receivers: OrderedDict[Share, _Place] = OrderedDict()
        self._starters: dict[Share, Callable[[], None]] = {}
        self._repliers: OrderedDict[Share, _Place] = OrderedDict()

    @property
    def held(self) -> int:
        return self.requests + self.replies

    @property
    def is_short(self) -> bool:
        """Whether somebody waits for room."""
        return bool(self._receivers or self._small_receivers or self._repliers or self._starters)

    def open(self) -> "Share":
        return Share(self)

    # -- requests that arrive

    def may_receive(self, share: "Share", more: int) -> bool:
        if self._turn is share:
            return True
        mine, left = share.held + more, self.limit - self.held - more
        left_to_requests = self.requests_limit - self.requests - more
        if self.is_small(mine):
            return self._fits_in_small_part(more) or (left >= 0 and left_to_requests >= -self._kept_for_small)
        return mine <= left - self._kept_for_small and share.requests + more <= left_to_requests

    def is_small(self, held: int) -> bool:
        return held <= self._small

    def _fits_in_small_part(self, more: int) -> bool:
        return self.held_by_small + more <= self._kept_for_small

    def line_up_to_receive(self, share: "Share", more: int, on_room: Callable[[], None]) -> bool:
        """Take a place in the line; True when the turn is free and goes to this one."""
        share.is_in_line = True
        if self._turn is None:
            self._leave_receivers(share)
            self._turn = share
            return True
        small = self.is_small(share.held + more)
        if share not in (line := self._small_receivers if small else self._receivers):
            self._leave_receivers(share)
        line[share] = _Place(more, on_room)
        return False

    def _leave_receivers(self, share: "Share") -> None:
        self._receivers.pop(share, None)
        self._small_receivers.pop(share, None)

    def stop_receiving(self, share: "Share") -> None:
        share.is_in_line = False
        self._leave_receivers(share)
        if self._turn is share:
            self._turn = None
            self.serve_soon()

    def has_turn(self, share: "Share") -> bool:
        return self._turn is share

    # -- requests that wait to be started

    def line_up_to_start(self, share: "Share", on_room: Callable[[], None]) -> None:
        self._starters[share] = on_room

    def stop_starting(self, share: "Share") -> None:
        self._starters.pop(share, None)

    # -- replies that are to be made

    def room_for_reply(self, share: "Share", wanted: int) -> int:
        """How much of a reply may be made now; 0 when it has to wait."""
        if self.is_small(share.held + wanted):
            return wanted if self._fits_in_small_part(wanted) or self.held + wanted <= self.limit else 0
        room = min(wanted, self._fair_part(share))
        return room if room >= min(wanted, self._enough) and not self._repliers else 0

    def _fair_part(self, share: "Share") -> int:
        """How much more one connection may take, so that it does not hold more than is left."""
        return (self.limit - self.held - self._kept_for_small - share.held) // 2

    def line_up_to_reply(self, share: "Share", wanted: int, on_room: Callable[[], None], *, first: bool) -> None:
        self._repliers[share] = _Place(wanted, on_room)
        if first:
            self._repliers.move_to_end(share, last=False)

    def stop_replying(self, share: "Share") -> None:
        self._repliers.pop(share, None)

    # -- those who wait

    def serve_soon(self) -> None:
        """Something was given back: see, once per turn of the loop, who can go on."""
        if not self._serving and self.is_short:
            self._serving = True
            self._call_soon(self._serve)

    def _serve(self) -> None:
        self._serving = False
        while self._starters and not self.is_flooded:
            self._starters.pop(next(iter(self._starters)))()
        self._serve_receivers()
        self._serve_repliers()

    def _serve_receivers(self) -> None:
        for line in (self._small_receivers, self._receivers):
            while line:
                share, place = next(iter(line.items()))
                if self._turn is None:
                    self._turn = share
                elif not self.may_receive(share, place.wanted):
                    break
                del line[share]
                place.on_room()

    def _serve_repliers(self) -> None:
        while self._repliers:
            share, place = next(iter(self._repliers.items()))
            free = self.limit - self.held - self._kept_for_small
            room = min(place.wanted, self._fair_part(share), max(self._enough, free // len(self._repliers)))
            if room < min(place.wanted, self._enough):
                return
            del self._repliers[share]
            share.granted = room
            try:
                place.on_room()
            finally:
                share.granted = 0


class Share:
    """What one connection holds."""

    __slots__ = ("_account", "granted", "is_in_line", "replies", "requests")

    def __init__(self, account: MemoryAccount) -> None:
        self._account = account
        self.requests = 0
        self.replies = 0
        # Whether the turn, or a place in the line for it, is this one's.
        self.is_in_line = False
        # While a reply is told that its waiting is over: how large it may be.
        self.granted = 0

    @property
    def held(self) -> int:
        return self.requests + self.replies

    def settle(self, requests: int, replies: int) -> None:
        """Say what is held now.  Never refused: it is a fact."""
        account = self._account
        more_requests, more_replies = requests - self.requests, replies - self.replies
        if account.is_small(held := self.held):
            account.held_by_small -= held
        if account.is_small(requests + replies):
            account.held_by_small += requests + replies
        account.requests += more_requests
        account.replies += more_replies
        account.is_flooded = account.replies > account.limit
        self.requests, self.replies = requests, replies
        if more_requests + more_replies < 0:
            account.serve_soon()

    def may_receive(self, requests: int, on_room: Callable[[], None]) -> bool:
        """Whether the bytes of requests may grow to this many; if not, `on_room` is called when it is worth asking again."""
        account = self._account
        more = requests - self.requests
        if more <= 0 or account.may_receive(self, more):
            return True
        return account.line_up_to_receive(self, more, on_room)

    def stop_receiving(self) -> None:
        """The request is complete, or is not read on for another reason: neither turn nor place is kept."""
        self._account.stop_receiving(self)

    @property
    def has_turn(self) -> bool:
        return self._account.has_turn(self)

    def wait_to_start(self, on_room: Callable[[], None]) -> None:
        """Call back when replies no longer fill the memory."""
        self._account.line_up_to_start(self, on_room)

    def room_for_reply(self, wanted: int) -> int:
        """How much of a reply of up to so many bytes may be made now; 0 when it has to wait for room."""
        return self.granted or self._account.room_for_reply(self, wanted)

    def wait_to_reply(self, wanted: int, on_room: Callable[[], None], *, first: bool = False) -> None:
        """Call back when there is room; during that call `room_for_reply` tells how much."""
        self._account.line_up_to_reply(self, wanted, on_room, first=first)

    def stop_waiting_to_reply(self) -> None:
        self._account.stop_replying(self)

    def close(self, requests: int = 0) -> None:
        """The connection is gone, with all that it held but so many bytes of requests under way."""
        self._account.stop_starting(self)
        self._account.stop_replying(self)
        self._account.stop_receiving(self)
        self.settle(requests, 0)
