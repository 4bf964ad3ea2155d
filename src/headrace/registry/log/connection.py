"""How the registry reaches the cluster, and the topic it keeps its schemas in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.client.admin.admin import Admin
from headrace.client.consumer.consumer import Consumer
from headrace.client.consumer.settings import Start
from headrace.client.errors import HeadraceError
from headrace.client.producer.producer import Producer
from headrace.client.security.options import SecurityOptions

TOPIC = "_schemas"
REPLICATION = 3  # where there are as many brokers


class TopicUnfit(HeadraceError):
    """The topic exists and cannot hold schemas."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The cluster, as the SDK's clients take it."""

    bootstrap: str | None = None
    topic: str = TOPIC
    security: SecurityOptions = field(default_factory=SecurityOptions)
    librdkafka: Mapping[str, Any] = field(default_factory=dict)

    def admin(self) -> Admin:
        return Admin(self.bootstrap, librdkafka=self.librdkafka, client_id="headrace-registry", **self.security)

    def consumer(self, start: Start) -> Consumer[bytes, bytes]:
        return Consumer(
            self.topic,
            bootstrap=self.bootstrap,
            start=start,
            tracing=False,
            librdkafka=self.librdkafka,
            client_id="headrace-registry",
            **self.security,
        )

    def producer(self) -> Producer:
        """Whoever opens one shuts out all that were open before: there is one writer of the topic at a time."""
        return Producer(
            self.bootstrap,
            linger=0,
            tracing=False,
            transactional_id=f"headrace-registry-{self.topic}",
            transaction_timeout=10,
            delivery_timeout=10,
            librdkafka=self.librdkafka,
            client_id="headrace-registry",
            **self.security,
        )


def ensure_topic(connection: Connection) -> None:
    """Make the topic where it is missing, and look at it where it is not."""
    with connection.admin() as admin:
        if connection.topic not in admin.topic_names():
            copies = min(REPLICATION, len(admin.cluster().brokers))
            admin.create_topic(
                connection.topic, partitions=1, replication=copies, settings={"cleanup.policy": "compact"}, exist_ok=True
            )
        settings = admin.settings(connection.topic)
        partitions = len(admin.topic(connection.topic).partitions)
    policy = settings["cleanup.policy"].value
    if partitions != 1 or policy != "compact":
        raise TopicUnfit(
            f"topic '{connection.topic}' has {partitions} partitions and cleanup.policy={policy}; "
            "schemas need one partition and cleanup.policy=compact"
        )
