"""The errors of a response are found wherever they are: at its head, in a topic, in one of many partitions."""

from headrace.broker.metrics.response_errors import error_codes
from headrace.model.errors import ErrorCode
from headrace.wire.messages.heartbeat import HeartbeatResponse
from headrace.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


def topic(code: ErrorCode, *partitions: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name="orders",
        is_internal=False,
        partitions=tuple(
            MetadataResponsePartition(error_code=each, partition_index=index, leader_id=1, replica_nodes=(1,), isr_nodes=(1,))
            for index, each in enumerate(partitions)
        ),
    )


def test_codes_of_topics_and_partitions_are_found_and_zeros_are_not() -> None:
    fine, away, unknown = ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    response = MetadataResponse(
        brokers=(),
        cluster_id="c",
        controller_id=1,
        topics=(topic(fine, fine, away, fine, away), topic(unknown), topic(fine, fine)),
    )

    assert sorted(error_codes(response)) == sorted([away, away, unknown])


def test_a_response_that_is_nothing_but_a_code_is_looked_at_too() -> None:
    assert list(error_codes(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert list(error_codes(HeartbeatResponse(error_code=ErrorCode.NONE))) == []
