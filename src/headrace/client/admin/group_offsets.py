"""What a group has committed, asked without being a member.

librdkafka's own call for it, `list_consumer_group_offsets`, ends the process with a segmentation fault when a coordinator has
just moved (its issue 5040).  A consumer that only asks does not: it gets an error, and asks again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from headrace.client.errors import passes
from headrace.client.librdkafka import Consumer, new_consumer
from headrace.model.identity import TopicPartition

AGAIN_S = 0.1
ASKED_AT_ONCE_MAX = 5_000  # partitions in one request


def committed_offsets(
    config: Mapping[str, Any], group: str, places: Iterable[TopicPartition], timeout: float
) -> dict[TopicPartition, int]:
    """Of these partitions, those for which the group has committed, with the offset.  KafkaException when nobody says."""
    return {place: offset for place, (offset, _) in committed_notes(config, group, places, timeout).items()}


def committed_notes(
    config: Mapping[str, Any], group: str, places: Iterable[TopicPartition], timeout: float
) -> dict[TopicPartition, tuple[int, str | None]]:
    """The same, each offset with the metadata that was committed beside it."""
    asking = new_consumer(
        {
            **config,
            "group.id": group,
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
            # What is about to change in an open transaction does not count, and is not waited for.
            "isolation.level": "read_uncommitted",
        }
    )
    deadline = time.monotonic() + timeout
    wanted = [ClientPartition(*place) for place in places]
    try:
        answers = [
            answer
            for first in range(0, len(wanted), ASKED_AT_ONCE_MAX)
            for answer in _ask(asking, wanted[first : first + ASKED_AT_ONCE_MAX], deadline)
        ]
    finally:
        asking.close()
    return {TopicPartition(each.topic, each.partition): (each.offset, each.metadata) for each in answers if each.offset >= 0}


def _ask(asking: Consumer, wanted: list[ClientPartition], deadline: float) -> list[ClientPartition]:
    while True:
        try:
            answers: list[ClientPartition] = asking.committed(wanted, timeout=max(0.1, deadline - time.monotonic()))
            for each in answers:
                if each.error is not None:
                    raise KafkaException(each.error)
            return answers
        except KafkaException as error:
            if not passes(error.args[0]) or time.monotonic() >= deadline:
                raise
        time.sleep(AGAIN_S)
