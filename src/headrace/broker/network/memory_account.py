"""The memory that all connections share: how much of it each may take, and who waits for it.

Counted are bytes that are really held: of requests (arriving, queued, under way) and of replies (made, and not yet taken by the
socket).  A connection has a `Share`; it tells the share what it holds (`settle`) and asks before it holds more.

- Fair: a connection may take more as long as it does not hold more than is left over for everybody else.  One alone gets half of
  the memory, n of them an (n+1)th each.  A part is kept for small requests and replies: they may fill it whatever the large
  ones hold, even beyond the bound, and they wait in a line of their own.
- Half-received requests cannot wait for each other: those that are refused stand in a line, and one at a time has the turn, which
  lets it go beyond the bound until its request is complete.  So at most one request's size is held beyond the bound.  Where those
  who have the turn stop, the server may give it to more at a time, as long as that holds of the largest request there may be.
- A reply that is not made yet holds nothing.  It waits in a line until there is `enough` for it, and those who wait are given
  equal parts.  Followers come first, then connections that have taken a reply before, then those of which nothing is known.
- Readers that take nothing cannot starve the others: one reply at a time has the turn to be made although there is no room, and
  the next one has it when that reply is taken, or the server finds that it takes too long.  Connections of which nothing is
  known have another turn than those that are known to take their replies.

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


class _Waiter(NamedTuple):
    """Somebody in a line: how much is wanted, and who is told when there is room."""

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
        # Of replies, those that were made without room for them, in their turn.
        self.made_by_turn = 0
        # Whether other replies alone fill the memory: those whose size nobody could know before they were made.
        self.is_flooded = False
        self._kept_for_small = limit // KEPT_FOR_SMALL
        self._small = min(SMALL_BYTES, self._kept_for_small)
        self._enough = min(ENOUGH_BYTES, max(1, limit // 8))
        self._call_soon = call_soon
        self._serving = False
        self._turns: set[Share] = set()
        self._receivers: OrderedDict[Share, _Waiter] = OrderedDict()
        self._small_receivers: OrderedDict[Share, _Waiter] = OrderedDict()
        self._starters: dict[Share, Callable[[], None]] = {}
        # Whose reply is made without room, and whether that was so before the server's last look: of the known and the unknown.
        self._reply_turns: list[Share | None] = [None, None]
        self._old_reply_turns: list[Share | None] = [None, None]
        # Followers, those who have taken a reply before, and the others.
        self._repliers: tuple[OrderedDict[Share, _Waiter], ...] = (OrderedDict(), OrderedDict(), OrderedDict())

    @property
    def held(self) -> int:
        return self.requests + self.replies

    @property
    def is_short(self) -> bool:
        """Whether somebody waits for room."""
        return bool(self._receivers or self._small_receivers or any(self._repliers) or self._starters)

    def open(self) -> "Share":
        return Share(self)

    # -- requests that arrive

    def may_receive(self, share: "Share", more: int) -> bool:
        if share in self._turns:
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
        if not self._turns:
            self._leave_receivers(share)
            self._turns.add(share)
            return True
        small = self.is_small(share.held + more)
        if share not in (line := self._small_receivers if small else self._receivers):
            self._leave_receivers(share)
        line[share] = _Waiter(more, on_room)
        return False

    def _leave_receivers(self, share: "Share") -> None:
        self._receivers.pop(share, None)
        self._small_receivers.pop(share, None)

    def stop_receiving(self, share: "Share") -> None:
        share.is_in_line = False
        self._leave_receivers(share)
        if share in self._turns:
            self._turns.discard(share)
            self.serve_soon()

    def has_turn(self, share: "Share") -> bool:
        return share in self._turns

    def give_turn(self, share: "Share") -> None:
        """Let one more of those in line go beyond the bound."""
        place = self._receivers.get(share) or self._small_receivers.get(share)
        if place is not None:
            self._leave_receivers(share)
            self._turns.add(share)
            place.on_room()

    # -- requests that wait to be started

    def line_up_to_start(self, share: "Share", on_room: Callable[[], None]) -> None:
        self._starters[share] = on_room

    def stop_starting(self, share: "Share") -> None:
        self._starters.pop(share, None)

    # -- replies that are to be made

    def room_for_reply(self, share: "Share", wanted: int) -> int:
        """How much of a reply may be made now; 0 when it has to wait."""
        if share.requests + share.replies + wanted <= self._small:
            return wanted if self._fits_in_small_part(wanted) or self.held + wanted <= self.limit else 0
        room = min(wanted, self._fair_part(share))
        return room if room >= min(wanted, self._enough) and not any(self._repliers) else 0

    def _fair_part(self, share: "Share") -> int:
        """How much more one connection may take, so that it does not hold more than is left."""
        return (self.limit - self.requests - self.replies - self._kept_for_small - share.requests - share.replies) // 2

    def line_up_to_reply(self, share: "Share", wanted: int, on_room: Callable[[], None], *, first: bool) -> None:
        self._repliers[0 if first else 1 if share.has_taken else 2][share] = _Waiter(wanted, on_room)
        if None in self._reply_turns:
            self.serve_soon()

    def stop_replying(self, share: "Share") -> None:
        for line in self._repliers:
            line.pop(share, None)

    def has_reply_turn(self, share: "Share") -> bool:
        return share in self._reply_turns

    def end_reply_turn(self, share: "Share") -> None:
        self._reply_turns = [None if each is share else each for each in self._reply_turns]
        self.serve_soon()

    def pass_reply_turns_on(self) -> None:
        """Called now and then: whoever has had a turn since the last time loses it."""
        for share, before in zip(self._reply_turns, self._old_reply_turns, strict=True):
            if share is not None and share is before:
                self.end_reply_turn(share)
        self._old_reply_turns = list(self._reply_turns)

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
                if not self._turns:
                    self._turns.add(share)
                elif not self.may_receive(share, place.wanted):
                    break
                del line[share]
                place.on_room()

    def _serve_repliers(self) -> None:
        for rank, line in enumerate(self._repliers):
            while line:
                share, place = next(iter(line.items()))
                room = self._room_in_line(share, place.wanted) or self._room_by_turn(share, place.wanted, is_known=rank < 2)
                if not room:
                    break
                del line[share]
                share.granted = room
                try:
                    place.on_room()
                finally:
                    share.granted = 0
                    if share.has_reply_turn and not share.replies:
                        share.is_by_turn = False
                        self.end_reply_turn(share)

    def _room_in_line(self, share: "Share", wanted: int) -> int:
        """How much the first in line may have; 0 when it has to wait on."""
        free = self.limit - self.held - self._kept_for_small
        room = min(wanted, self._fair_part(share), max(self._enough, free // sum(map(len, self._repliers))))
        return room if room >= min(wanted, self._enough) else 0

    def _room_by_turn(self, share: "Share", wanted: int, *, is_known: bool) -> int:
        # Those who are not known do not use up what the known may need.
        most = self.limit if is_known else self.limit - self._kept_for_small // 2
        if self._reply_turns[is_known] is not None or self.replies >= most:
            return 0
        self._reply_turns[is_known] = share
        self.made_by_turn += 0 if share.is_by_turn else share.replies
        share.is_by_turn = True
        return min(wanted, self._enough)


class Share:
    """What one connection holds."""

    __slots__ = ("_account", "granted", "has_taken", "is_by_turn", "is_in_line", "replies", "requests")

    def __init__(self, account: MemoryAccount) -> None:
        self._account = account
        self.requests = 0
        self.replies = 0
        # Whether the turn, or a place in the line for it, is this one's.
        self.is_in_line = False
        # Whether its reply was made without room for it.
        self.is_by_turn = False
        # Whether a reply that was worth counting was taken.
        self.has_taken = False
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
        if self.is_by_turn:
            account.made_by_turn += more_replies
            self.is_by_turn = replies > 0 or not self.replies
        account.is_flooded = account.replies - account.made_by_turn > account.limit
        self.requests, self.replies = requests, replies
        if more_replies < 0 and not replies:
            self.has_taken = True
            if self.has_reply_turn:
                account.end_reply_turn(self)
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

    def take_turn(self) -> None:
        """Go beyond the bound, though others do, too."""
        self._account.give_turn(self)

    @property
    def has_reply_turn(self) -> bool:
        return self._account.has_reply_turn(self)

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
        if self.has_reply_turn:
            self._account.end_reply_turn(self)
