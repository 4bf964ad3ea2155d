"""Why a broker takes no records: which limit a record broke, or that there is no room for it.

librdkafka passes on the error's name, and not the sentence that came with it; and a disk that is full it does not report at all,
but tries again until its own time-out.  So the topic's settings and the disks are asked for, at most once in a while; when nobody
answers, the limit is named without its value.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from headrace.client.admin.full_disks import full_disks, in_words
from headrace.client.admin.wire_admin import WireAdmin
from headrace.client.errors import LIMITS, HeadraceError
from headrace.client.librdkafka import new_admin
from headrace.wire.messages.describe_client_quotas import DescribeClientQuotasRequest

MAKE_ROOM = "free some room there, or have topics keep less (retention.ms, retention.bytes, `headrace topic purge`)"
# The brokers make a topic when it is first asked for, but none on full disks; all that a client hears is that there is none.
NO_SUCH_TOPIC = frozenset({"_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART"})
NOT_MADE = "the topic does not exist, and none is made without room on the disk"
ASK_S = 2.0
AGE_S = 10.0
NOT_FOR_ADMINISTRATION = ("transactional.id", "enable.idempotence", "partitioner")
ABOUT_A_LIMIT = frozenset({"MSG_SIZE_TOO_LARGE", "POLICY_VIOLATION", "INVALID_RECORD"})


class Refusals:
    """Explains them.  `config` is that of the client whose records were refused."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = {name: value for name, value in config.items() if name not in NOT_FOR_ADMINISTRATION}
        self._known: dict[str, tuple[dict[str, str], float]] = {}
        self._full_disks, self._full_disks_until = "", 0.0

    def explain(self, name: str, topic: str, hint_for_keys: str = "") -> str:
        """What follows the error's own words; empty when there is nothing to add."""
        if name not in ABOUT_A_LIMIT:
            return LIMITS.get(name, "")
        settings = self._settings(topic)
        limit = settings.get("max.message.bytes", "")
        if name == "MSG_SIZE_TOO_LARGE" and limit.isdecimal():
            return (
                f"; the batch it was sent in is above max.message.bytes of the topic, which is {int(limit):,} bytes: raise that, "
                "or lower batch_bytes of this producer"
            )
        if name == "INVALID_RECORD":
            is_compacted = "compact" in settings.get("cleanup.policy", "")
            return f"; {topic} is compacted: every record needs a key{hint_for_keys}" if is_compacted else ""
        if name == "POLICY_VIOLATION" and settings:
            return f"; the topic is full: {self._fullness(topic, settings)}"
        return LIMITS.get(name, "")

    def full_disks(self) -> str:
        """Which disks are full, and what to do about it, in words; empty when none is, or nobody says."""
        if self._full_disks_until < time.monotonic():
            found = full_disks(str(self._config["bootstrap.servers"]), self._config)
            self._full_disks = f"{in_words(found)}; {MAKE_ROOM}" if found else ""
            self._full_disks_until = time.monotonic() + AGE_S
        return self._full_disks

    def _fullness(self, topic: str, settings: Mapping[str, str]) -> str:
        quota = self._storage_quota(topic)
        if quota is not None:
            return f"its storage_bytes quota is {quota:,.0f} bytes"
        memory = " and ".join(
            f"{name} is {int(value):,}" for name, value in sorted(settings.items()) if name.startswith("memory.max.")
        )
        return f"in memory, {memory}, and memory.full.policy is {settings.get('memory.full.policy')}"

    def _settings(self, topic: str) -> dict[str, str]:
        settings, until = self._known.get(topic, ({}, 0.0))
        if until < time.monotonic():
            settings = self._ask(topic)
            self._known[topic] = settings, time.monotonic() + AGE_S
        return settings

    def _ask(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            client = new_admin(self._config)
            (future,) = client.describe_configs([resource], request_timeout=ASK_S).values()
            return {name: entry.value for name, entry in future.result(ASK_S).items() if entry.value is not None}
        except (KafkaException, TimeoutError, ValueError):
            return {}

    def _storage_quota(self, topic: str) -> float | None:
        """By a connection of our own: librdkafka has no call for it."""
        try:
            with WireAdmin(str(self._config["bootstrap.servers"]), self._config, timeout_s=ASK_S) as admin:
                reply = admin.call(DescribeClientQuotasRequest(components=(), strict=False))
        except (HeadraceError, OSError, ValueError):
            return None
        limits = {
            entry.entity[0].entity_name: value.value
            for entry in reply.entries or ()
            for value in entry.values
            if value.key == "storage_bytes"
        }
        return limits.get(topic, limits.get(None))
