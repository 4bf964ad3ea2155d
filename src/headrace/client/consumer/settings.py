"""A consumer's arguments as librdkafka's settings, and where it starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from headrace.client.arguments import Config, choice, label, merged, milliseconds, topic_name
from headrace.client.errors import InvalidArgument
from headrace.model.identity import TopicPartition
from headrace.model.names import UNGROUPED

DELIVERIES = ("at_most_once", "at_least_once", "exactly_once")
COOPERATIVE = "cooperative-sticky"
ASSIGNORS = (COOPERATIVE, "range", "roundrobin")
Start = str | int | datetime


def configuration(
    *,
    bootstrap: str,
    group: str | None,
    start: Start,
    isolation: str,
    assignor: str,
    protocol: str,
    instance_id: str | None,
    session_timeout: object,
    operation_timeout: float,
    client_id: str,
    extra: Mapping[str, Any] | None,
) -> Config:
    choice("isolation", isolation, ("read_committed", "read_uncommitted"))
    choice("assignor", assignor, ASSIGNORS)
    choice("protocol", protocol, ("classic", "consumer"))
    session_timeout_ms = milliseconds("session_timeout", session_timeout, at_least=1)
    if group is not None and (not isinstance(group, str) or not group):
        raise InvalidArgument(f"group={group!r} is not accepted; accepted: a name, or None to read without a group")
    config: Config = {
        "bootstrap.servers": bootstrap,
        "client.id": label("client_id", client_id),
        "group.id": group or UNGROUPED,
        "auto.offset.reset": "latest" if start == "latest" else "earliest",
        "isolation.level": isolation,
        # Offsets are ours to commit: only what is finished, which librdkafka cannot know.
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        # Somebody who reads a topic that does not exist has misspelt it, or is early: in neither case should it come to be.
        "allow.auto.create.topics": False,
        "socket.timeout.ms": max(1000, round(operation_timeout * 1000)),
        # There is one connection to a broker: a question on it, such as a seek by time or lag, waits behind a fetch that waits.
        "fetch.wait.max.ms": 100,
        # librdkafka's own values here cap one reader at about 200,000 small records a second.
        "fetch.queue.backoff.ms": 5,
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 64 * 1024,
    }
    if group is not None:
        config["group.protocol"] = protocol
        if instance_id is not None:
            config["group.instance.id"] = label("instance_id", instance_id)
        if protocol == "classic":
            config["partition.assignment.strategy"] = assignor
            config["session.timeout.ms"] = session_timeout_ms
            config["heartbeat.interval.ms"] = max(100, min(3000, session_timeout_ms // 3))
    elif instance_id is not None:
        raise InvalidArgument(f"instance_id={instance_id!r} does not go without a group; accepted then: None")
    return merged(config, extra)


def check_start(start: object) -> None:
    if isinstance(start, str) and start in ("earliest", "latest"):
        return
    if isinstance(start, datetime) or (isinstance(start, int) and not isinstance(start, bool) and start >= 0):
        return
    raise InvalidArgument(
        f"start={start!r} is not accepted; accepted: 'earliest', 'latest', an offset as a whole number, or a datetime"
    )


def topics_or_partitions(given: object) -> tuple[list[str], list[TopicPartition]]:
    """What to read: names of topics (a pattern begins with `^`), or single partitions; not both."""
    each = [given] if isinstance(given, str | TopicPartition) else list(given) if isinstance(given, Iterable) else []
    topics = [topic if topic.startswith("^") else topic_name("topics", topic) for topic in each if isinstance(topic, str)]
    partitions = [partition for partition in each if isinstance(partition, TopicPartition)]
    if not each or len(topics) + len(partitions) != len(each) or (topics and partitions):
        raise InvalidArgument(
            f"topics={given!r} is not accepted; accepted: a topic name, a list of names, or a list of TopicPartition"
        )
    return topics, partitions
