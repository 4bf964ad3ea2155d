"""What can be said of a topic, asked over the wire: its partitions with their offsets, and its settings."""

from typing import TYPE_CHECKING, Any

from headrace.cli.connection import REQUEST_TIMEOUT_S, result_of

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def describe_partitions(admin: "AdminClient", topic: str, found: Any) -> list[dict[str, Any]]:
    """One row per partition.  Compaction and markers leave gaps, so end minus start is the most records there can be."""
    led = [number for number, partition in sorted(found.partitions.items()) if partition.leader >= 0]
    starts, ends = topic_offsets(admin, topic, led)
    return [
        {
            "partition": number,
            "leader": partition.leader if partition.leader >= 0 else None,
            "replicas": list(partition.replicas),
            "in_sync": list(partition.isrs),
            "start_offset": starts.get(number),
            "end_offset": ends.get(number),
            "records_at_most": ends[number] - starts[number] if number in ends else None,
        }
        for number, partition in sorted(found.partitions.items())
    ]


def topic_offsets(admin: "AdminClient", topic: str, partitions: list[int]) -> tuple[dict[int, int], dict[int, int]]:
    """The first and the next offset of each partition, each asked for all partitions at once."""
    from confluent_kafka.admin import OffsetSpec

    return _offsets(admin, topic, partitions, OffsetSpec.earliest()), _offsets(admin, topic, partitions, OffsetSpec.latest())


def _offsets(admin: "AdminClient", topic: str, partitions: list[int], spec: Any) -> dict[int, int]:
    from confluent_kafka import TopicPartition

    if not partitions:
        return {}
    futures = admin.list_offsets(
        {TopicPartition(topic, number): spec for number in partitions}, request_timeout=REQUEST_TIMEOUT_S
    )
    return {at.partition: result_of(future, f"asking for the offsets of {topic}").offset for at, future in futures.items()}


def describe_settings(admin: "AdminClient", topic: str, *, everything: bool) -> list[dict[str, Any]]:
    """The topic's settings: those that someone set, or every one."""
    from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

    resource = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S).values()
    entries = result_of(future, f"asking for the settings of {topic}")
    return [
        {"name": entry.name, "value": entry.value, "source": _source_name(entry.source)}
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if everything or entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    ]


def _source_name(source: int) -> str:
    from confluent_kafka.admin import ConfigSource

    names = {
        ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
        ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "cluster",
        ConfigSource.STATIC_BROKER_CONFIG: "broker",
        ConfigSource.DEFAULT_CONFIG: "default",
    }
    return names.get(ConfigSource(source), "unknown")
