"""The state of a store that lives in this process: keys, revisions, and the recent past for watches.  Synchronous, no I/O.

A change is planned first and applied after: between the two a shell can make it durable, so that no reader and no watch
ever sees what a crash could take back.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from headrace.controller.entries import (
    Compare,
    CompareCreated,
    Condition,
    Delete,
    DeletePrefix,
    Event,
    Exists,
    KeyValue,
    Operation,
    Put,
)
from headrace.declaring import dataclass
from headrace.metadata.store import Listing, RevisionCompacted

HISTORY_EVENTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Change:
    """What a transaction would do: the state of each touched key after it."""

    revision: int
    events: tuple[Event, ...]


class Ledger:
    """Revisioned keys and their history."""

    def __init__(self, items: Iterable[KeyValue] = (), revision: int = 0) -> None:
        self.items: dict[str, KeyValue] = {item.key: item for item in items}
        self.revision = revision
        self.keys_of_lease: dict[int, set[str]] = {}
        self._history: deque[Change] = deque()
        self._history_events = 0
        self._forgotten_revision = revision

    def get(self, key: str) -> KeyValue | None:
        return self.items.get(key)

    def list(self, prefix: str) -> Listing:
        found = sorted((item for key, item in self.items.items() if key.startswith(prefix)), key=lambda item: item.key)
        return Listing(tuple(found), self.revision)

    def holds(self, condition: Condition) -> bool:
        item = self.items.get(condition.key)
        match condition:
            case Compare(_, revision):
                return (item.mod_revision if item else 0) == revision
            case CompareCreated(_, revision):
                return (item.create_revision if item else 0) == revision
            case Exists():
                return item is not None

    def plan(self, operations: Sequence[Operation]) -> Change:
        """What the operations would change.  A key is put at most once: etcd refuses more, and what it refuses no store takes."""
        revision = self.revision + 1
        events: dict[str, Event] = {}
        for operation in operations:
            match operation:
                case Put(key, value, lease):
                    assert key not in events, f"{key} is written twice in one transaction"
                    before = self.items.get(key)
                    created = before.create_revision if before else revision
                    events[key] = Event(key, KeyValue(key, value, created, revision, lease), revision)
                case Delete(key):
                    if key in self.items:
                        events[key] = Event(key, None, revision)
                case DeletePrefix(prefix):
                    for key in sorted(key for key in self.items if key.startswith(prefix)):
                        events[key] = Event(key, None, revision)
        return Change(revision, tuple(events.values()))

    def apply(self, change: Change) -> None:
        assert change.revision == self.revision + 1, "changes are applied in the order in which they were planned"
        for event in change.events:
            before = self.items.pop(event.key, None)
            if before is not None and before.lease:
                self.keys_of_lease.get(before.lease, set()).discard(event.key)
            if event.item is not None:
                self.items[event.key] = event.item
                if event.item.lease:
                    self.keys_of_lease.setdefault(event.item.lease, set()).add(event.key)
        self.revision = change.revision
        self._remember(change)

    def plan_end_of_lease(self, lease: int) -> Change:
        return self.plan([Delete(key) for key in sorted(self.keys_of_lease.get(lease, ()))])

    def changes_from(self, revision: int) -> Sequence[Change]:
        """Every change at or after a revision.  Raises RevisionCompacted when some are no longer remembered."""
        if revision <= self._forgotten_revision:
            raise RevisionCompacted(f"revision {revision} is forgotten; the oldest known is {self._forgotten_revision + 1}")
        if not self._history or self._history[-1].revision < revision:
            return ()
        return tuple(self._since(revision))

    def _since(self, revision: int) -> Iterator[Change]:
        newest_first = itertools.takewhile(lambda change: change.revision >= revision, reversed(self._history))
        return reversed(tuple(newest_first))

    def compact(self) -> None:
        """Forget the past, as etcd does from time to time."""
        self._history.clear()
        self._history_events = 0
        self._forgotten_revision = self.revision

    def _remember(self, change: Change) -> None:
        self._history.append(change)
        self._history_events += len(change.events)
        while self._history_events > HISTORY_EVENTS_MAX and len(self._history) > 1:
            oldest = self._history.popleft()
            self._history_events -= len(oldest.events)
            self._forgotten_revision = oldest.revision
