"""What an operator may set about groups.  Names and defaults are Kafka's, but for one: targets are assigned at once."""

from enum import Enum

from headrace.declaring import dataclass

INT_MAX = 2**31 - 1


class MigrationPolicy(Enum):
    """Which way a group with members may move between the classic and the consumer protocol (KIP-848)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings of all groups of a broker."""

    # The classic protocol.
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = INT_MAX
    # A new member cannot send heartbeats while its first JoinGroup is parked, so that request has a time limit of its own.
    new_member_join_timeout_ms: int = 300_000

    # The consumer protocol.
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_max_size: int = INT_MAX
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_assignment_interval_ms: int = 0
    consumer_regex_refresh_interval_ms: int = 600_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL

    # Share groups.
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    share_max_size: int = 200

    # Committed offsets.
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    offsets_retention_check_interval_ms: int = 600_000
