"""A broker's settings, and those of single groups, as the group coordinator uses them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.coordination.group.settings import GroupSettings, MigrationPolicy
from headrace.model.broker_settings import BrokerConfig
from headrace.model.group_settings import (
    ASSIGNMENT_INTERVAL,
    GROUP_SETTINGS,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_SESSION_TIMEOUT,
)


def group_settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        consumer_session_timeout_ms=config["group.consumer.session.timeout.ms"],
        consumer_heartbeat_interval_ms=config["group.consumer.heartbeat.interval.ms"],
        consumer_max_size=config["group.consumer.max.size"],
        consumer_assignors=tuple(config["group.consumer.assignors"]),
        consumer_assignment_interval_ms=config["group.consumer.assignment.interval.ms"],
        consumer_regex_refresh_interval_ms=config["group.consumer.regex.refresh.interval.ms"],
        migration_policy=MigrationPolicy(config["group.consumer.migration.policy"]),
        share_session_timeout_ms=config["group.share.session.timeout.ms"],
        share_heartbeat_interval_ms=config["group.share.heartbeat.interval.ms"],
        share_max_size=config["group.share.max.size"],
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
        offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
    )


_FIELDS = {
    SESSION_TIMEOUT: "consumer_session_timeout_ms",
    HEARTBEAT_INTERVAL: "consumer_heartbeat_interval_ms",
    ASSIGNMENT_INTERVAL: "consumer_assignment_interval_ms",
    SHARE_SESSION_TIMEOUT: "share_session_timeout_ms",
    SHARE_HEARTBEAT_INTERVAL: "share_heartbeat_interval_ms",
}


def with_own(settings: GroupSettings, texts: Mapping[str, str]) -> GroupSettings:
    """The settings of a group that has some of its own.  A name that only a newer broker knows is no reason to fail."""
    own: dict[str, Any] = {_FIELDS[name]: GROUP_SETTINGS[name].parse(text) for name, text in texts.items() if name in _FIELDS}
    return replace(settings, **own)
