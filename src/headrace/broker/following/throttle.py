"""How fast replicas that catch up may do so, while partitions move (KIP-73): so many bytes a second in and out of a broker.

Only replicas that a topic names (`partition:broker`, or `*`) and that are not in sync are held back: one in sync must stay so.
"""

from collections.abc import Callable
from typing import Final

from headrace.broker.partitions.partition import Partition
from headrace.controller.image import CurrentImage
from headrace.model.live_config import LiveConfig
from headrace.security.quotas import Bucket

UNLIMITED: Final = 2**63 - 1
FOLLOWER: Final = "follower.replication.throttled"
LEADER: Final = "leader.replication.throttled"


class ReplicationThrottle:
    """One direction: what this broker fetches as follower, or what it serves as leader."""

    def __init__(self, config: LiveConfig, image: CurrentImage, now: Callable[[], float], setting: str) -> None:
        """`now` is the event loop's time."""
        self._config = config
        self._image = image
        self._now = now
        self._replicas_setting = setting + ".replicas"
        self._rate_setting = setting + ".rate"
        self._bucket: Bucket | None = None
        self._free_at = 0.0

    def holds_back(self, partition: Partition, follower: int) -> bool:
        """Whether this follower must wait for now."""
        return self._now() < self._free_at and self._is_throttled(partition, follower)

    def on_bytes(self, partition: Partition, follower: int, size: int) -> None:
        """Records went by."""
        if not size or not self._is_throttled(partition, follower):
            return
        now = self._now()
        self._free_at = now + self._current_bucket(now).take(size, now)

    def _is_throttled(self, partition: Partition, follower: int) -> bool:
        topic = self._image().topics.get(partition.identity.topic)
        named = topic.configs.get(self._replicas_setting) if topic is not None else None
        if not named or follower in partition.state.isr or self._config.now[self._rate_setting] == UNLIMITED:
            return False
        return named.strip() == "*" or f"{partition.identity.partition}:{follower}" in (part.strip() for part in named.split(","))

    def _current_bucket(self, now: float) -> Bucket:
        rate = float(max(1, self._config.now[self._rate_setting]))
        if self._bucket is None or self._bucket.rate != rate:
            self._bucket = Bucket(rate, now)
        return self._bucket
