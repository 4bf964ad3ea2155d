"""What share groups' settings say of the partitions that they work on."""

from collections.abc import Callable, Mapping
from typing import Any

from headrace.broker.sharing.dead_letters import Burial
from headrace.controller.image import CurrentImage
from headrace.coordination.share.breaker import BreakerLimits
from headrace.coordination.share.partition import ShareLimits
from headrace.declaring import dataclass
from headrace.model.broker_settings import BrokerConfig
from headrace.model.group_settings import (
    DEAD_LETTER_COPIES,
    DEAD_LETTER_TOPIC,
    SHARE_AUTO_OFFSET_RESET,
    SHARE_BACKOFF,
    SHARE_BREAKER_PAUSE,
    SHARE_BREAKER_PERCENT,
    SHARE_BREAKER_RECORDS,
    SHARE_BREAKER_RESUMED,
    SHARE_DELIVERY_COUNT_LIMIT,
    SHARE_GROUP_SETTINGS,
    SHARE_ISOLATION_LEVEL,
    SHARE_LOCK_DURATION,
    SHARE_PAUSED,
    SHARE_RECORD_LOCKS,
    SHARE_RENEWAL,
)

NO_BREAKER = BreakerLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    limits: ShareLimits
    offset_reset: str
    committed_only: bool
    breaker: BreakerLimits = NO_BREAKER
    is_paused: bool = False
    # Where records go that are given up; None where they just are.
    burial: Burial | None = None


SettingsOf = Callable[[str], ShareSettings]


class ShareSettingsView:
    """The settings of each group, as they are now."""

    def __init__(self, config: BrokerConfig, image: CurrentImage) -> None:
        self._config = config
        self._image = image
        self._of_all = self._settings({})
        # Of groups with settings of their own, the last that was made, and of which texts.
        self._made: tuple[Mapping[str, str], ShareSettings] = ({}, self._of_all)

    def __call__(self, group_id: str) -> ShareSettings:
        texts = self._image().group_configs.get(group_id)
        if texts is None:
            return self._of_all
        if self._made[0] is not texts:
            self._made = texts, self._settings(texts)
        return self._made[1]

    def _settings(self, texts: Mapping[str, str]) -> ShareSettings:
        known = {name: text for name, text in texts.items() if name in SHARE_GROUP_SETTINGS}
        own: dict[str, Any] = {name: SHARE_GROUP_SETTINGS[name].parse(text) for name, text in known.items()}
        config = self._config
        limits = ShareLimits(
            lock_duration_ms=own.get(SHARE_LOCK_DURATION, config["group.share.record.lock.duration.ms"]),
            delivery_count_limit=own.get(SHARE_DELIVERY_COUNT_LIMIT, config["group.share.delivery.count.limit"]),
            max_record_locks=own.get(SHARE_RECORD_LOCKS, config["group.share.partition.max.record.locks"]),
            renewal_enabled=own.get(SHARE_RENEWAL, True),
            backoff_ms=own.get(SHARE_BACKOFF, 0),
        )
        return ShareSettings(
            limits=limits,
            offset_reset=own.get(SHARE_AUTO_OFFSET_RESET, "latest"),
            committed_only=own.get(SHARE_ISOLATION_LEVEL, "read_uncommitted") == "read_committed",
            breaker=BreakerLimits(
                percent=own.get(SHARE_BREAKER_PERCENT, 0),
                records=own.get(SHARE_BREAKER_RECORDS, 100),
                pause_ms=own.get(SHARE_BREAKER_PAUSE, 60_000),
                resumed_ms=own.get(SHARE_BREAKER_RESUMED, 0),
            ),
            is_paused=own.get(SHARE_PAUSED, False),
            burial=_burial(own, limits),
        )


def _burial(own: Mapping[str, Any], limits: ShareLimits) -> Burial | None:
    topic = own.get(DEAD_LETTER_TOPIC, "")
    if not topic:
        return None
    return Burial(topic, copies_record=own.get(DEAD_LETTER_COPIES, False), delivery_count_limit=limits.delivery_count_limit)
