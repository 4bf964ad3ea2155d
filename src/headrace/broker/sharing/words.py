"""What members say of records, from the form it has on the wire; nonsense is refused before anybody hears of it."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from headrace.coordination.share.delivery import AcknowledgeType
from headrace.coordination.share.partition import Acknowledgement
from headrace.coordination.share.sessions import PartitionId
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.share_fetch import AcknowledgementBatch

RENEWING_FROM = 2
REASON_CHARACTERS_MAX = 1000
KINDS = {kind.value: kind for kind in AcknowledgeType}


class PartitionWords(NamedTuple):
    """What a request says of one partition, and why records are rejected, by offset."""

    batches: list[AcknowledgementBatch]
    reasons: dict[int, str]


def by_partition(topics: Iterable[Any]) -> dict[PartitionId, PartitionWords]:
    """What a request says of each partition that it names; of one that it names twice, both."""
    said: dict[PartitionId, PartitionWords] = {}
    for topic in topics:
        for partition in topic.partitions:
            key = (topic.topic_id, partition.partition_index)
            words = said.get(key)
            if words is None:
                words = said[key] = PartitionWords([], {})
            words.batches.extend(partition.acknowledgement_batches)
            for reason in partition.reasons:
                words.reasons[reason.offset] = reason.text[:REASON_CHARACTERS_MAX]
    return said


def words_of(batches: Iterable[AcknowledgementBatch], *, may_renew: bool) -> list[Acknowledgement]:
    """Raises RequestError where ranges are empty, out of order, or do not fit what is said of them."""
    words: list[Acknowledgement] = []
    behind = -1
    for batch in batches:
        first, end = batch.first_offset, batch.last_offset + 1
        types = batch.acknowledge_types
        if first >= end or first < behind or first < 0:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Ranges of records must be in order and must not overlap.")
        if len(types) not in (1, end - first):
            raise RequestError(ErrorCode.INVALID_REQUEST, "A range of records has one acknowledge type, or one for each record.")
        if any(kind not in KINDS or (kind == AcknowledgeType.RENEW and not may_renew) for kind in types):
            raise RequestError(ErrorCode.INVALID_REQUEST, "There is no such acknowledge type in this request.")
        words.append(Acknowledgement(first, end, tuple(KINDS[kind] for kind in types)))
        behind = end
    return words
