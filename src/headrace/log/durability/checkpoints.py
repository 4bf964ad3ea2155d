"""Small text files that say how far things are, in Kafka's forms: offset checkpoints, `meta.properties`, `partition.metadata`."""

import base64
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from headrace.model.identity import TopicPartition

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEAN_OFFSETS: Final = "cleaner-offset-checkpoint"
META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

_VERSION = 0


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Version, count, then `topic partition offset` by line."""
    lines = [str(_VERSION), str(len(offsets))]
    lines += [f"{identity.topic} {identity.partition} {offset}" for identity, offset in sorted(offsets.items())]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(text: bytes) -> dict[TopicPartition, int]:
    """ValueError when it is not an offset checkpoint."""
    lines = text.decode().splitlines()
    if len(lines) < 2 or int(lines[0]) != _VERSION or int(lines[1]) != len(lines) - 2:
        raise ValueError("not an offset checkpoint")
    offsets = {}
    for line in lines[2:]:
        topic, partition, offset = line.split()
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def encode_properties(properties: Mapping[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in sorted(properties.items())).encode()


def decode_properties(text: bytes) -> dict[str, str]:
    lines = (line.strip() for line in text.decode().splitlines())
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def encode_topic_id(topic_id: UUID) -> str:
    """Kafka's text form of a uuid: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def encode_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {encode_topic_id(topic_id)}\n".encode()


def decode_partition_metadata(text: bytes) -> UUID:
    """ValueError when it is not what was written."""
    fields = dict(line.split(": ", 1) for line in text.decode().splitlines() if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("not a partition.metadata file")
    return UUID(bytes=base64.b64decode(fields["topic_id"] + "==", altchars=b"-_", validate=True))
