"""A transactional producer that says exactly what it is told to, over a socket."""

import time
from collections.abc import Sequence
from typing import Any

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from headrace.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.support.raw import RawClient, batch

LATEST = -1


class Teller(RawClient):
    """One connection and one call for each thing a producer can ask."""

    def create_topic(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """Settings with their dots written as underscores."""
        configs = tuple(CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in settings.items())
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=(), configs=configs)
        assert self.call(CreateTopicsRequest(topics=(wanted,)), 5).topics[0].error_code == ErrorCode.NONE

    def init(
        self,
        transactional_id: str | None,
        *,
        timeout_ms: int = 60_000,
        identity: tuple[int, int] = (-1, -1),
        version: int = 5,
        **more: bool,
    ) -> InitProducerIdResponse:
        if transactional_id is not None:
            found = self.call(FindCoordinatorRequest(key=transactional_id, key_type=1), 3)
            assert found.error_code == ErrorCode.NONE
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=identity[0],
            producer_epoch=identity[1],
            **more,
        )
        answer: InitProducerIdResponse = self.call(request, version)
        return answer

    def find_group(self, group: str) -> None:
        """The first question makes the topic of the offsets."""
        assert self.call(FindCoordinatorRequest(key=group, key_type=0), 3).error_code == ErrorCode.NONE

    def identity(self, transactional_id: str, **more: Any) -> tuple[int, int]:
        """As clients do, ask again while the transaction before is being aborted."""
        deadline = time.monotonic() + 10
        while (answer := self.init(transactional_id, **more)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            assert time.monotonic() < deadline, "the transaction before does not end"
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def add(
        self, transactional_id: str, producer: tuple[int, int], *partitions: TopicPartition, version: int = 3
    ) -> list[ErrorCode]:
        topics = tuple(AddPartitionsToTxnTopic(name=each.topic, partitions=(each.partition,)) for each in partitions)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics,
        )
        results = self.call(request, version).results_by_topic_v3_and_below
        return [ErrorCode(each.partition_error_code) for topic in results for each in topic.results_by_partition]

    def verify(self, *asked: tuple[str, tuple[int, int], TopicPartition], version: int = 5) -> list[ErrorCode]:
        transactions = tuple(
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer[0],
                producer_epoch=producer[1],
                verify_only=True,
                topics=(AddPartitionsToTxnTopic(name=partition.topic, partitions=(partition.partition,)),),
            )
            for transactional_id, producer, partition in asked
        )
        results = self.call(AddPartitionsToTxnRequest(transactions=transactions), version).results_by_transaction
        return [ErrorCode(each.topic_results[0].results_by_partition[0].partition_error_code) for each in results]

    def add_offsets(self, transactional_id: str, producer: tuple[int, int], group: str, version: int = 3) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id=group
        )
        return ErrorCode(self.call(request, version).error_code)

    def commit_offset(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        group: str,
        partition: TopicPartition,
        offset: int,
        version: int = 3,
    ) -> ErrorCode:
        committed = TxnOffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset, committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=(TxnOffsetCommitRequestTopic(name=partition.topic, partitions=(committed,)),),
        )
        return ErrorCode(self.call(request, version).topics[0].partitions[0].error_code)

    def committed_offset(self, group: str, partition: TopicPartition) -> tuple[ErrorCode, int]:
        """As a consumer of committed records asks for it."""
        topic = OffsetFetchRequestTopic(name=partition.topic, partition_indexes=(partition.partition,))
        answer = self.call(OffsetFetchRequest(group_id=group, topics=(topic,), require_stable=True), 7)
        found = answer.topics[0].partitions[0]
        return ErrorCode(found.error_code), found.committed_offset

    def produce(
        self,
        transactional_id: str | None,
        producer: tuple[int, int],
        partition: TopicPartition,
        *values: bytes,
        sequence: int = 0,
        version: int = 12,
    ) -> tuple[ErrorCode, int]:
        records = batch(
            *values,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        return self.produce_batch(transactional_id, partition, records, version)

    def produce_batch(
        self, transactional_id: str | None, partition: TopicPartition, records: bytes, version: int
    ) -> tuple[ErrorCode, int]:
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=5000,
            topic_data=(
                TopicProduceData(
                    name=partition.topic,
                    partition_data=(PartitionProduceData(index=partition.partition, records=records),),
                ),
            ),
        )
        answer = self.call(request, version).responses[0].partition_responses[0]
        return ErrorCode(answer.error_code), answer.base_offset

    def end(self, transactional_id: str, producer: tuple[int, int], *, committed: bool, version: int = 5) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=committed
        )
        answer: EndTxnResponse = self.call(request, version)
        return answer

    def fetch(self, partition: TopicPartition, offset: int = 0, *, committed: bool = True, max_bytes: int = 1 << 20) -> Any:
        """The partition's part of a Fetch reply."""
        wanted = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            isolation_level=int(committed),
            topics=(FetchTopic(topic=partition.topic, partitions=(wanted,)),),
        )
        return self.call(request, 12).responses[0].partitions[0]

    def end_offset(self, partition: TopicPartition, *, committed: bool) -> int:
        wanted = ListOffsetsPartition(partition_index=partition.partition, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=(ListOffsetsTopic(name=partition.topic, partitions=(wanted,)),),
        )
        return int(self.call(request, 7).topics[0].partitions[0].offset)

    def producers(self, partition: TopicPartition) -> Sequence[ProducerState]:
        asked = TopicRequest(name=partition.topic, partition_indexes=(partition.partition,))
        answer = self.call(DescribeProducersRequest(topics=(asked,)), 0).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        states: Sequence[ProducerState] = answer.active_producers
        return states

    def write_marker(
        self, producer: tuple[int, int], partition: TopicPartition, *, committed: bool, coordinator_epoch: int, version: int = 1
    ) -> ErrorCode:
        topic = WritableTxnMarkerTopic(name=partition.topic, partition_indexes=(partition.partition,))
        marker = WritableTxnMarker(
            producer_id=producer[0],
            producer_epoch=producer[1],
            transaction_result=committed,
            topics=(topic,),
            coordinator_epoch=coordinator_epoch,
        )
        answer = self.call(WriteTxnMarkersRequest(markers=(marker,)), version)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)
