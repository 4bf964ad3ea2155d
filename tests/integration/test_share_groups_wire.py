"""Share groups on a broker, over the wire: where they begin, what their settings do, how they are administered."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.records.batch import build_batch, iterate_batches
from headrace.records.record import Record, read_records
from headrace.testing import Broker
from headrace.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from headrace.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.share_group_describe import ShareGroupDescribeRequest
from tests.integration.transaction_wire import Teller
from tests.support.raw import RawClient, produce
from tests.support.share_member import ShareMember, set_of_group
from tests.support.share_requests import ACCEPT, FINAL, RELEASE
from tests.support.waiting import until

FEW = {"share.coordinator.state.topic.num.partitions": "2"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=FEW) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap) as client:
        yield client


def offsets(client: RawClient, group: str) -> Any:
    request = DescribeShareGroupOffsetsRequest(groups=(DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None),))
    return client.call(request, 1).groups[0]


def start_and_lag(client: RawClient, group: str) -> tuple[int, int]:
    (partition,) = offsets(client, group).topics[0].partitions
    return partition.start_offset, partition.lag


def test_a_group_begins_at_the_end_unless_told_otherwise(client: RawClient) -> None:
    late = ShareMember(client, "late", "begin", early=False).join()
    late.produce(b"before")
    assert late.take(max_wait_ms=0) == []
    late.produce(b"after")
    early = ShareMember(client, "early", "begin").join()

    assert late.take() == [(1, 1, 1)]
    assert [each[:2] for each in early.take()] in ([(0, 1)], [(0, 0), (1, 1)])


def test_a_group_may_begin_so_long_ago(client: RawClient) -> None:
    member = ShareMember(client, "since", "since", early=False)
    assert set_of_group(client, "since", share_auto_offset_reset="by_duration:PT1H") == ErrorCode.NONE
    assert set_of_group(client, "since", share_auto_offset_reset="by_duration:-PT1H") == ErrorCode.INVALID_CONFIG
    assert set_of_group(client, "since", share_auto_offset_reset="someday") == ErrorCode.INVALID_CONFIG
    member.produce(b"of 2023")
    now_ms = int(time.time() * 1000)
    client.call(produce("since", build_batch([Record(0, now_ms, None, b"of now", ())])), 9)
    member.join()

    assert member.take() == [(1, 1, 1)]


def test_with_read_committed_nobody_gets_what_is_undecided_or_was_aborted(broker: Broker, client: RawClient) -> None:
    member = ShareMember(client, "committed", "payments")
    assert set_of_group(client, "committed", share_isolation_level="read_committed") == ErrorCode.NONE
    member.join()
    payments = TopicPartition("payments", 0)
    with Teller(broker.bootstrap) as teller:
        first = teller.identity("pay")
        teller.produce("pay", first, payments, b"never")
        assert member.take(max_wait_ms=0) == []
        teller.end("pay", first, committed=False)
        second = teller.identity("pay")
        teller.produce("pay", second, payments, b"paid")
        teller.end("pay", second, committed=True)

    taken = until(member.take, "the committed record comes")
    assert taken == [(2, 2, 1)]
    assert member.say(2, 2, ACCEPT) == ErrorCode.NONE
    until(lambda: start_and_lag(client, "committed")[0] >= 3, "markers and aborted records are done, too")


def test_offsets_tell_how_far_a_group_is_and_how_much_is_left(client: RawClient) -> None:
    member = ShareMember(client, "lagging", "lag").join()
    member.produce(b"a", b"b", b"c", b"d")
    assert member.take() == [(0, 3, 1)]
    assert start_and_lag(client, "lagging") == (0, 4)
    assert member.say(1, 2, ACCEPT) == ErrorCode.NONE
    assert start_and_lag(client, "lagging") == (0, 2)
    assert member.say(0, 0, ACCEPT) == ErrorCode.NONE
    assert start_and_lag(client, "lagging") == (3, 1)
    assert offsets(client, "nobody").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_are_moved_and_forgotten_while_nobody_works(client: RawClient) -> None:
    member = ShareMember(client, "moved", "moving").join()
    member.produce(b"a", b"b", b"c")
    member.take()
    assert member.say(0, 2, ACCEPT) == ErrorCode.NONE
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="moving", partitions=(partition,))
    move = AlterShareGroupOffsetsRequest(group_id="moved", topics=(topic,))
    assert client.call(move, 0).error_code == ErrorCode.NON_EMPTY_GROUP
    member.fetch(share_session_epoch=FINAL)
    member.leave()

    assert client.call(move, 0).responses[0].partitions[0].error_code == ErrorCode.NONE
    assert start_and_lag(client, "moved") == (1, 2)
    again = ShareMember(client, "moved", "moving", "bob").join()
    assert [each[:2] for each in again.take()] in ([(1, 2)], [(1, 1), (2, 2)])
    again.fetch(share_session_epoch=FINAL)
    again.leave()
    forget = DeleteShareGroupOffsetsRequest(
        group_id="moved", topics=tuple(DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("moving", "other"))
    )
    codes = [each.error_code for each in client.call(forget, 0).responses]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert offsets(client, "moved").topics == ()


def test_share_groups_are_listed_described_and_deleted_as_such(client: RawClient) -> None:
    member = ShareMember(client, "listed", "listing").join()
    listed = client.call(ListGroupsRequest(states_filter=(), types_filter=("share",)), 5)
    assert ("listed", "share", "Stable") in {(each.group_id, each.group_type, each.group_state) for each in listed.groups}
    described = client.call(ShareGroupDescribeRequest(group_ids=("listed", "no"), include_authorized_operations=False), 1)
    (mine, none) = described.groups
    assert (mine.group_state, [each.member_id for each in mine.members]) == ("Stable", ["ann"])
    assert none.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    delete = DeleteGroupsRequest(groups_names=("listed",))
    assert client.call(delete, 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    member.leave()

    assert client.call(delete, 2).results[0].error_code == ErrorCode.NONE
    assert "listed" not in {each.group_id for each in client.call(ListGroupsRequest(states_filter=(), types_filter=()), 5).groups}


def test_records_deleted_from_under_a_group_are_not_waited_for(client: RawClient) -> None:
    member = ShareMember(client, "cut", "cut").join()
    member.produce(b"a", b"b")
    member.produce(b"c")
    assert member.take(max_records=2, share_acquire_mode=1) == [(0, 1, 1)]
    cut = DeleteRecordsTopic(name="cut", partitions=(DeleteRecordsPartition(partition_index=0, offset=1),))
    client.call(DeleteRecordsRequest(topics=(cut,), timeout_ms=5000), 2)

    assert member.take() == [(2, 2, 1)]
    assert member.say(0, 2, ACCEPT) == ErrorCode.NONE
    assert start_and_lag(client, "cut") == (3, 0)


def test_a_group_its_members_and_its_state_survive_a_restart(tmp_path: Path) -> None:
    with Broker(data=tmp_path, settings=FEW) as broker, RawClient(broker.bootstrap) as client:
        member = ShareMember(client, "kept", "jobs").join()
        member.produce(b"a", b"b", b"c")
        assert member.take() == [(0, 2, 1)]
        assert member.say(1, 1, ACCEPT) == ErrorCode.NONE
        assert member.say(2, 2, RELEASE) == ErrorCode.NONE
        epoch = member.beat().member_epoch

    with Broker(data=tmp_path, settings=FEW) as broker, RawClient(broker.bootstrap) as client:
        member = ShareMember(client, "kept", "jobs")
        member.member_epoch = epoch
        until(lambda: not member.beat().error_code, "its coordinator has loaded, and knows it")
        assert [(first, last) for first, last, _ in until(member.take, "what was not accepted comes again")] == [(0, 0), (2, 2)]


SHORT = {"group.share.min.record.lock.duration.ms": "100", "group.share.record.lock.duration.ms": "200"}


def test_a_lock_lasts_as_long_as_the_broker_or_the_group_says() -> None:
    with Broker(settings=FEW | SHORT) as broker, RawClient(broker.bootstrap) as client:
        ann = ShareMember(client, "workers", "jobs").join()
        ann.produce(b"a")
        assert ann.fetch().acquisition_lock_timeout_ms == 200
        assert [each[:2] for each in ShareMember(client, "workers", "jobs", "bob").take(max_wait_ms=5000)] == [(0, 0)]
        assert set_of_group(client, "workers", share_record_lock_duration_ms="300") == ErrorCode.NONE
        assert ann.fetch().acquisition_lock_timeout_ms == 300


def test_a_record_is_delivered_so_often_at_most() -> None:
    given = {"group.share.delivery.count.limit": "2"}
    with Broker(settings=FEW | given) as broker, RawClient(broker.bootstrap) as client:
        member = ShareMember(client, "workers", "jobs").join()
        member.produce(b"a")
        for count in (1, 2):
            assert member.take() == [(0, 0, count)]
            assert member.say(0, 0, RELEASE) == ErrorCode.NONE
        assert member.take(max_wait_ms=0) == []


def test_so_many_records_of_a_partition_are_under_way_at_most() -> None:
    given = {"group.share.min.partition.max.record.locks": "3", "group.share.partition.max.record.locks": "3"}
    with Broker(settings=FEW | given) as broker, RawClient(broker.bootstrap) as client:
        member = ShareMember(client, "workers", "jobs").join()
        member.produce(b"a", b"b", b"c", b"d")
        assert member.take(share_acquire_mode=1) == [(0, 2, 1)]
        assert member.take(max_wait_ms=0) == []
        assert member.say(0, 2, ACCEPT) == ErrorCode.NONE
        assert member.take() == [(3, 3, 1)]


def test_a_broker_has_so_many_share_sessions_at_most() -> None:
    given = {"group.share.max.share.sessions": "1"}
    with Broker(settings=FEW | given) as broker, RawClient(broker.bootstrap) as client:
        ShareMember(client, "workers", "jobs").take(max_wait_ms=0)
        second = ShareMember(client, "workers", "jobs", "bob").fetch()
        assert second.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


@pytest.mark.parametrize(
    ("limit", "value", "beyond"),
    [
        ("group.share.min.session.timeout.ms", "40000", "39999"),
        ("group.share.max.session.timeout.ms", "70000", "70001"),
        ("group.share.min.heartbeat.interval.ms", "4000", "3999"),
        ("group.share.max.heartbeat.interval.ms", "16000", "16001"),
        ("group.share.min.record.lock.duration.ms", "14000", "13999"),
        ("group.share.max.record.lock.duration.ms", "70000", "70001"),
        ("group.share.min.delivery.count.limit", "3", "2"),
        ("group.share.max.delivery.count.limit", "20", "21"),
        ("group.share.min.partition.max.record.locks", "200", "199"),
        ("group.share.max.partition.max.record.locks", "20000", "20001"),
    ],
)
def test_a_share_group_sets_nothing_outside_of_what_the_broker_allows(limit: str, value: str, beyond: str) -> None:
    name = limit.replace("group.", "").replace(".min.", ".").replace("share.max.", "share.").replace(".", "_")
    with Broker(settings={limit: value}) as broker, RawClient(broker.bootstrap) as client:
        assert set_of_group(client, "g", **{name: beyond}) == ErrorCode.INVALID_CONFIG
        assert set_of_group(client, "g", **{name: value}) == ErrorCode.NONE


def test_neighbours_are_told_together_up_to_the_size_that_is_asked_for(client: RawClient) -> None:
    member = ShareMember(client, "batches", "batches").join()
    member.produce(b"a", b"b")
    member.produce(b"c")

    assert [each[:2] for each in member.take(batch_size=2)] == [(0, 1), (2, 2)]


def test_after_so_many_changes_all_of_a_state_is_written_again() -> None:
    given = {"share.coordinator.snapshot.update.records.per.snapshot": "2", "share.coordinator.state.topic.num.partitions": "1"}
    with Broker(settings=given) as broker, RawClient(broker.bootstrap) as client:
        member = ShareMember(client, "workers", "jobs").join()
        member.produce(*(b"%d" % number for number in range(6)))
        member.take()
        for offset in range(6):
            assert member.say(offset, offset, ACCEPT) == ErrorCode.NONE
        assert broker.broker is not None
        log = broker.broker.parts.replicas.find("__share_group_state", 0).log
        data = log.read(0, max_bytes=1 << 20, up_to=log.end_offset, at_least_one=True).data
        kinds = [
            int.from_bytes((record.key or b"")[:2], "big")
            for header, each in iterate_batches(data)
            for record in read_records(each)
        ]

    # It begins; then come where it begins and each word, and after two of them all of it.
    assert kinds == [0, 1, 1, 0, 1, 1, 0, 1]
