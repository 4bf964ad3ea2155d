"""The share coordinator of one partition of `__share_group_state`: keeps how far groups are, for those who lead their partitions.

Whoever leads a partition reads its state first, which fences earlier leaders, and writes what has changed before it tells
anybody.  State changes only in `replay`.  The log is short: after so many updates comes a snapshot, and with every write the
share-partition whose snapshot lies farthest back may get a new one, so that what lies before all snapshots (`needed_from`) can
be deleted however long a group rests.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

from headrace.coordination.decision import Answer, Decision, Reply, Token
from headrace.coordination.moment import Moment
from headrace.coordination.share.delivery import StateBatch, laid_over
from headrace.coordination.share.entries import NOT_SET, Entry, ShareKey, ShareState, ShareUpdate, SnapshotEntry, UpdateEntry
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import ProducerIdentity

# A snapshot that so many entries follow is made anew, though nothing of it has changed.
ENTRIES_BEHIND_MAX = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeState:
    """Begin, or begin anew: what was kept before does not count any more."""

    key: ShareKey
    state_epoch: int
    start_offset: int = NOT_SET


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    key: ShareKey
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteState:
    key: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int = NOT_SET
    done: int = NOT_SET
    batches: tuple[StateBatch, ...] = ()


class ShareStateShard:
    """All share-partitions that fall on one partition."""

    def __init__(self, updates_per_snapshot: int) -> None:
        self._updates_per_snapshot = updates_per_snapshot
        self._states: dict[ShareKey, ShareState] = {}
        self._updates: dict[ShareKey, int] = {}
        # Where each snapshot lies; the one that lies farthest back is the first.
        self._snapshots: dict[ShareKey, int] = {}
        self._last_offset = -1

    # --- requests ---------------------------------------------------------------------------------------------------------

    def initialize(self, request: InitializeState, token: Token, now: Moment) -> Decision[None]:
        """The group coordinator says that the group works on this partition, from where on where that is known."""
        known = self._states.get(request.key)
        if known is not None and request.start_offset == NOT_SET:
            return Decision((), (Reply(token, None),))  # it has begun: whoever asks did not hear of it
        if known is not None and request.state_epoch < known.state_epoch:
            raise RequestError(ErrorCode.FENCED_STATE_EPOCH)
        begun = ShareState(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=request.state_epoch,
            leader_epoch=0 if known is None else known.leader_epoch,
            start_offset=request.start_offset,
            done=NOT_SET if request.start_offset == NOT_SET else 0,
            created_ms=now.wall_ms,
            written_ms=now.wall_ms,
        )
        return self._decided([SnapshotEntry(request.key, begun)], token, None, now)

    def read(self, request: ReadState, token: Token, now: Moment) -> Decision[ShareState]:
        """A leader begins: it is told all that is kept, and no earlier one is heard from then on."""
        known = self._known(request.key, request.leader_epoch)
        if request.leader_epoch == known.leader_epoch:
            return Decision((), (Reply(token, known),))
        # The state stays as it is; the entry is about who may change it.
        fence = ShareUpdate(snapshot_epoch=known.snapshot_epoch, leader_epoch=request.leader_epoch)
        return self._decided([UpdateEntry(request.key, fence)], token, replace(known, leader_epoch=request.leader_epoch), now)

    def write(self, request: WriteState, token: Token, now: Moment) -> Decision[None]:
        """Keep what has changed."""
        known = self._known(request.key, request.leader_epoch)
        if request.state_epoch < known.state_epoch:
            raise RequestError(ErrorCode.FENCED_STATE_EPOCH)
        update = ShareUpdate(
            snapshot_epoch=known.snapshot_epoch,
            leader_epoch=request.leader_epoch,
            start_offset=request.start_offset,
            done=request.done,
            batches=request.batches,
        )
        if self._updates[request.key] < self._updates_per_snapshot:
            return self._decided([UpdateEntry(request.key, update)], token, None, now)
        return self._decided([_snapshot(request.key, _updated(known, update), now)], token, None, now)

    def delete(self, key: ShareKey, token: Token, now: Moment) -> Decision[None]:
        """Nothing is to be kept of it; that there was nothing is as well."""
        gone = [SnapshotEntry(key, None)] if key in self._states else []
        return self._decided(gone, token, None, now)

    def states(self) -> list[tuple[ShareKey, ShareState]]:
        """All that is kept."""
        return list(self._states.items())

    def summary(self, key: ShareKey) -> ShareState | None:
        return self._states.get(key)

    def _known(self, key: ShareKey, leader_epoch: int) -> ShareState:
        known = self._states.get(key)
        if known is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The state of this share-partition has not begun.")
        if leader_epoch < known.leader_epoch:
            raise RequestError(ErrorCode.FENCED_LEADER_EPOCH)
        return known

    def _decided(self, entries: Sequence[Entry], token: Token, answer: Answer, now: Moment) -> Decision[Answer]:
        named = {entry.key for entry in entries}
        slowest = next(iter(self._snapshots), None)
        is_behind = slowest is not None and self._last_offset - self._snapshots[slowest] >= ENTRIES_BEHIND_MAX
        if entries and slowest is not None and is_behind and slowest not in named:
            entries = [*entries, _snapshot(slowest, self._states[slowest], now)]
        return Decision(tuple(entries), (Reply(token, answer),))

    # --- the log ----------------------------------------------------------------------------------------------------------

    def needed_from(self) -> int:
        """Nothing that lies before this offset says anything that is not said again after it."""
        return next(iter(self._snapshots.values()), self._last_offset + 1)

    def replay(self, entry: Entry, offset: int, producer: ProducerIdentity | None = None) -> None:
        """The only place where a state changes."""
        self._last_offset = offset
        key = entry.key
        if isinstance(entry, UpdateEntry):
            known = self._states.get(key)
            # An update without its snapshot is of a state that was deleted.
            if known is not None and known.snapshot_epoch == entry.value.snapshot_epoch:
                self._states[key] = _updated(known, entry.value)
                self._updates[key] += 1
            return
        for book in (self._states, self._updates, self._snapshots):
            book.pop(key, None)
        if entry.value is not None:
            self._states[key] = entry.value
            self._updates[key] = 0
            self._snapshots[key] = offset

    def replay_marker(self, producer: ProducerIdentity, committed: bool) -> None:
        """Nothing in this topic is transactional."""

    def forget_topics(self, is_gone: Callable[[UUID], bool]) -> Decision[None]:
        """Topics were deleted, and nobody will work on them."""
        return Decision(tuple(SnapshotEntry(key, None) for key in self._states if is_gone(key.topic_id)))

    # --- time -------------------------------------------------------------------------------------------------------------

    def on_loaded(self, now: Moment) -> Decision[None]:
        return Decision()

    def next_deadline(self) -> float | None:
        return None

    def tick(self, now: Moment) -> Decision[None]:
        return Decision()


def _updated(known: ShareState, update: ShareUpdate) -> ShareState:
    start = known.start_offset if update.start_offset == NOT_SET else max(known.start_offset, update.start_offset)
    return replace(
        known,
        leader_epoch=max(known.leader_epoch, update.leader_epoch),
        start_offset=start,
        done=known.done if update.done == NOT_SET else update.done,
        batches=laid_over(known.batches, update.batches, start),
    )


def _snapshot(key: ShareKey, state: ShareState, now: Moment) -> SnapshotEntry:
    return SnapshotEntry(key, replace(state, snapshot_epoch=state.snapshot_epoch + 1, written_ms=now.wall_ms))
