"""What can be said of a topic, asked over the wire: its partitions with their offsets, and its settings."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.client.admin.admin import Admin
    from headrace.client.admin.descriptions import TopicDescription


def describe_partitions(admin: "Admin", topic: "TopicDescription") -> list[dict[str, Any]]:
    """One row per partition.  Compaction and markers leave gaps, so end minus start is the most records there can be."""
    from headrace.client.positions import ranges
    from headrace.model.identity import TopicPartition

    led = [TopicPartition(topic.name, each.index) for each in topic.partitions if each.leader is not None]
    found = {at.partition: offsets for at, offsets in ranges(admin, led).items()}
    rows = []
    for each in topic.partitions:
        start, end = found.get(each.index, (None, None))
        rows.append(
            {
                "partition": each.index,
                "leader": each.leader,
                "replicas": each.replicas,
                "in_sync": each.in_sync,
                "start_offset": start,
                "end_offset": end,
                "records_at_most": None if start is None or end is None else end - start,
            }
        )
    return rows


def describe_settings(admin: "Admin", topic: str, *, everything: bool) -> list[dict[str, Any]]:
    """The topic's settings: those that someone set, or every one."""
    return [
        {"name": name, "value": setting.value, "source": setting.source}
        for name, setting in admin.settings(topic).items()
        if everything or setting.source == "topic"
    ]
