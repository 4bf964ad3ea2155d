"""What every decision about a group works with: settings, deadlines, the cluster's topics, and a place for what it decides."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

from headrace.coordination.decision import Decision, Reply, Token
from headrace.coordination.group.entries import Entry
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.share_entries import ShareEntry
from headrace.coordination.group.timers import Timer, TimerKey, Timers
from headrace.coordination.group.topics import TopicCatalog
from headrace.coordination.moment import Moment
from headrace.declaring import dataclass
from headrace.model.identity import ProducerIdentity

# A deadline whose outcome could not be written comes again after this long.
RETRY_MS = 500


@dataclass(slots=True)
class Context:
    """Shared by all groups of a shard."""

    settings: GroupSettings
    timers: Timers = field(default_factory=Timers)
    topics: TopicCatalog = field(default_factory=TopicCatalog)
    own_settings: Mapping[str, GroupSettings] = field(default_factory=dict)  # of groups that have some, kept current by the owner

    # Called with how long a rebalance took, in milliseconds.
    on_rebalanced: Callable[[int], None] = lambda taken_ms: None

    def settings_of(self, group_id: str) -> GroupSettings:
        return self.own_settings.get(group_id, self.settings)

    def hear_from(self, group_id: str, member_id: str, timeout_ms: int, now: Moment) -> None:
        """A member is alive: it has that long until it must be heard of again."""
        self.timers.set(TimerKey(Timer.SESSION, group_id, member_id), now.after_ms(timeout_ms))


class Outcome:
    """Gathers entries and replies while a decision is made."""

    __slots__ = ("entries", "replies")

    def __init__(self) -> None:
        self.entries: list[Entry | ShareEntry] = []
        self.replies: list[Reply] = []

    def write(self, *entries: Entry | ShareEntry) -> None:
        self.entries += entries

    def write_all(self, entries: Iterable[Entry | ShareEntry]) -> None:
        self.entries += entries

    def reply(self, token: Token, message: Any) -> None:
        self.replies.append(Reply(token, message))

    def decision(self, producer: ProducerIdentity | None = None) -> Decision[Any]:
        return Decision(tuple(self.entries), tuple(self.replies), producer)
