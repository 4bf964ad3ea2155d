"""The handler table: every API this broker serves, in which versions, and who answers."""

from collections.abc import Mapping
from typing import Any

from headrace.broker.dispatch import DirectHandler, Handler, Route
from headrace.broker.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from headrace.wire.messages.alter_configs import AlterConfigsRequest
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.create_partitions import CreatePartitionsRequest
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.messages.delete_records import DeleteRecordsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headrace.wire.messages.list_offsets import ListOffsetsRequest
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from headrace.wire.messages.produce import ProduceRequest


def _plain(request: type[Any], handler: Handler) -> tuple[int, Route]:
    return request.api.key, Route(versions=request.api.versions, request=request, handler=handler)


def _direct(request: type[Any], direct: DirectHandler) -> tuple[int, Route]:
    return request.api.key, Route(versions=request.api.versions, request=request, direct=direct)


ROUTES: Mapping[int, Route] = dict(
    (
        _direct(ProduceRequest, produce.start),
        _direct(FetchRequest, fetch.start),
        _plain(ListOffsetsRequest, list_offsets.handle),
        _plain(MetadataRequest, metadata.handle),
        _plain(ApiVersionsRequest, api_versions.handle),
        _plain(CreateTopicsRequest, create_topics.handle),
        _plain(DeleteTopicsRequest, delete_topics.handle),
        _plain(DeleteRecordsRequest, delete_records.handle),
        _plain(OffsetForLeaderEpochRequest, offset_for_leader_epoch.handle),
        _plain(DescribeConfigsRequest, describe_configs.handle),
        _plain(AlterConfigsRequest, alter_configs.handle),
        _plain(DescribeLogDirsRequest, describe_log_dirs.handle),
        _plain(CreatePartitionsRequest, create_partitions.handle),
        _plain(IncrementalAlterConfigsRequest, incremental_alter_configs.handle),
        _plain(DescribeClusterRequest, describe_cluster.handle),
        _plain(DescribeTopicPartitionsRequest, describe_topic_partitions.handle),
    )
)
