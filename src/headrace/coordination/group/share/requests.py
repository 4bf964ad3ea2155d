"""What a share group's coordinator is asked, and what it answers."""

from dataclasses import field
from uuid import UUID

from headrace.coordination.group.entries import Partitions
from headrace.declaring import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeat:
    """All that a member says.  None means unchanged."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    topic_names: frozenset[str] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeatReply:
    """`begin` is for the shell: partitions of which a share coordinator shall begin to keep how far the group is."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None
    begin: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareBegun:
    """Share coordinators keep how far the group is in these partitions."""

    group_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTopics:
    """Share coordinators keep nothing of these topics any more."""

    group_id: str
    topic_ids: frozenset[UUID]
