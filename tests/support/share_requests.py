"""What a share consumer sends, with the values that matter to a test."""

from typing import Any
from uuid import UUID

from headrace.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from headrace.wire.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from headrace.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

HEARTBEAT_VERSION, VERSION = 1, 2
OPEN, FINAL = 0, -1
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def heartbeat(group: str, member: str, epoch: int, *topics: str) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics if epoch == 0 else None
    )


def fetch(
    group: str, member: str, epoch: int, topic_id: UUID, indexes: tuple[int, ...] = (), forget: tuple[int, ...] = (), **more: Any
) -> ShareFetchRequest:
    partitions = tuple(FetchPartition(partition_index=each, acknowledgement_batches=()) for each in indexes)
    values = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 500,
        "batch_size": 500,
        "topics": (FetchTopic(topic_id=topic_id, partitions=partitions),) if partitions else (),
        "forgotten_topics_data": tuple(ForgottenTopic(topic_id=topic_id, partitions=(each,)) for each in forget),
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
    }
    return ShareFetchRequest(**{**values, **more})


def acknowledge(
    group: str, member: str, epoch: int, topic_id: UUID, first: int, last: int, *types: int, index: int = 0, **more: Any
) -> ShareAcknowledgeRequest:
    said = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
    partition = AcknowledgePartition(partition_index=index, acknowledgement_batches=(said,))
    values = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
        "topics": (AcknowledgeTopic(topic_id=topic_id, partitions=(partition,)),),
    }
    return ShareAcknowledgeRequest(**{**values, **more})


def acquired(reply: Any) -> list[tuple[int, int, int]]:
    """Ranges that are the member's now, and how often they have been delivered."""
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in reply.responses
        for partition in topic.partitions
        for each in partition.acquired_records
    ]
