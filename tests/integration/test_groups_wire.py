"""Group requests in every version, over the wire: whoever asks in an old version gets an answer in it."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.coordination.group.conversion.subscription_bytes import Subscription, write_assignment
from headrace.model.errors import ErrorCode
from headrace.wire.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.raw import RawClient
from tests.support.subscriptions import write_subscription

NONE = ErrorCode.NONE


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as raw:
        raw.call(find_coordinator.FindCoordinatorRequest(key="any"), 0)
        yield raw


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


def make_topic(client: RawClient, topic: str, partitions: int = 2) -> Any:
    """Create a topic; its id."""
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=(), configs=())
    made = client.call(CreateTopicsRequest(topics=(wanted,), timeout_ms=5000, validate_only=False), 7)
    assert made.topics[0].error_code == NONE
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=topic),))
    return client.call(asked, 12).topics[0].topic_id


def versions(module: Any, name: str) -> range:
    api: Any = getattr(module, f"{name}Request").api
    return api.versions  # type: ignore[no-any-return]


# --- finding ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(find_coordinator, "FindCoordinator"))
def test_a_coordinator_is_found_in_every_version(client: RawClient, bootstrap: str, version: int) -> None:
    request = find_coordinator.FindCoordinatorRequest(key="g", coordinator_keys=("g", "h"))

    reply = client.call(request, version)

    found = reply.coordinators if version >= 4 else (reply,)
    assert len(found) == (2 if version >= 4 else 1)
    for each in found:
        assert (each.error_code, f"{each.host}:{each.port}") == (NONE, bootstrap)


def test_a_coordinator_is_found_for_transactions_but_not_for_kinds_that_do_not_exist(client: RawClient) -> None:
    asked = find_coordinator.FindCoordinatorRequest

    assert client.call(asked(coordinator_keys=("t",), key_type=1), 5).coordinators[0].error_code == NONE
    assert client.call(asked(coordinator_keys=("t",), key_type=9), 5).coordinators[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", [None, ""])
def test_a_member_that_was_assigned_a_topic_asks_for_it_by_its_id(client: RawClient, topic: str, name: str | None) -> None:
    topic_id = make_topic(client, topic)

    reply = client.call(MetadataRequest(topics=(MetadataRequestTopic(topic_id=topic_id, name=name),)), 12)

    assert [(each.error_code, each.name, len(each.partitions)) for each in reply.topics] == [(NONE, topic, 2)]


# --- the classic protocol ---------------------------------------------------------------------------------------------------


def join(client: RawClient, group: str, topic: str, version: int, member_id: str = "", **more: Any) -> Any:
    subscription = write_subscription(Subscription(version=1, topics=(topic,)))
    request = join_group.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(join_group.JoinGroupRequestProtocol(name="range", metadata=subscription),),
        **more,
    )
    return client.call(request, version)


def member_of(client: RawClient, group: str, topic: str, version: int = 9) -> Any:
    """Join with or without the detour over an id, whichever the version asks for."""
    reply = join(client, group, topic, version)
    if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        assert version >= 4
        reply = join(client, group, topic, version, reply.member_id)
    assert reply.error_code == NONE
    return reply


def sync(client: RawClient, group: str, joined: Any, version: int = 5, **more: Any) -> Any:
    given = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": (sync_group.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=write_assignment({}, 1)),),
    }
    return client.call(sync_group.SyncGroupRequest(**{**given, **more}), version)


@pytest.mark.parametrize("version", versions(join_group, "JoinGroup"))
def test_a_member_joins_in_every_version(client: RawClient, topic: str, group: str, version: int) -> None:
    reply = member_of(client, group, topic, version)

    assert (reply.generation_id, reply.protocol_name, reply.leader) == (1, "range", reply.member_id)
    assert [member.member_id for member in reply.members] == [reply.member_id]


@pytest.mark.parametrize("version", versions(sync_group, "SyncGroup"))
def test_a_member_syncs_in_every_version(client: RawClient, topic: str, group: str, version: int) -> None:
    joined = member_of(client, group, topic)

    reply = sync(client, group, joined, version)

    assert (reply.error_code, reply.assignment) == (NONE, write_assignment({}, 1))


def test_a_sync_that_must_name_its_protocol_and_does_not_is_refused(client: RawClient, topic: str, group: str) -> None:
    joined = member_of(client, group, topic)

    reply = sync(client, group, joined, 5, protocol_type=None)

    assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", versions(heartbeat, "Heartbeat"))
def test_a_member_beats_in_every_version(client: RawClient, topic: str, group: str, version: int) -> None:
    joined = member_of(client, group, topic)
    beat = heartbeat.HeartbeatRequest(group_id=group, generation_id=1, member_id=joined.member_id)

    assert client.call(beat, version).error_code == NONE
    stale = heartbeat.HeartbeatRequest(group_id=group, generation_id=0, member_id=joined.member_id)
    assert client.call(stale, version).error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", versions(leave_group, "LeaveGroup"))
def test_a_member_leaves_in_every_version(client: RawClient, topic: str, group: str, version: int) -> None:
    joined = member_of(client, group, topic)
    members = (leave_group.MemberIdentity(member_id=joined.member_id), leave_group.MemberIdentity(member_id="stranger"))

    reply = client.call(leave_group.LeaveGroupRequest(group_id=group, member_id=joined.member_id, members=members), version)

    assert reply.error_code == NONE
    if version >= 3:
        assert [member.error_code for member in reply.members] == [NONE, ErrorCode.UNKNOWN_MEMBER_ID]


# --- offsets ----------------------------------------------------------------------------------------------------------------


def commit(client: RawClient, group: str, topic: str, version: int, topic_id: Any, *, offset: int = 5, note: str = "n") -> Any:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=1, committed_offset=offset, committed_metadata=note)
    asked = offset_commit.OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=(partition,))
    return client.call(offset_commit.OffsetCommitRequest(group_id=group, topics=(asked,)), version).topics[0]


def fetch(client: RawClient, group: str, topic: str, version: int, topic_id: Any, *, everything: bool = False) -> Any:
    """The answer for the one partition that was committed."""
    old = offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=(1,))
    new = offset_fetch.OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=(1,))
    request = offset_fetch.OffsetFetchRequest(
        group_id=group,
        topics=None if everything else (old,),
        groups=(offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=None if everything else (new,)),),
    )
    reply = client.call(request, version)
    answer = reply.groups[0] if version >= 8 else reply
    assert answer.error_code == NONE
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize("version", versions(offset_commit, "OffsetCommit"))
def test_offsets_are_committed_in_every_version(client: RawClient, topic: str, group: str, version: int) -> None:
    topic_id = make_topic(client, topic)

    assert commit(client, group, topic, version, topic_id).partitions[0].error_code == NONE

    found = fetch(client, group, topic, 9, topic_id)
    assert (found.committed_offset, found.metadata) == (5, "n")


@pytest.mark.parametrize("version", versions(offset_fetch, "OffsetFetch"))
def test_offsets_are_fetched_in_every_version(client: RawClient, topic: str, group: str, version: int) -> None:
    topic_id = make_topic(client, topic)
    commit(client, group, topic, 9, topic_id)

    found = fetch(client, group, topic, version, topic_id)
    assert (found.committed_offset, found.metadata, found.error_code) == (5, "n", NONE)
    if version >= 2:
        assert fetch(client, group, topic, version, topic_id, everything=True).committed_offset == 5


def test_offsets_of_topics_that_do_not_exist_are_refused_one_by_one(client: RawClient, topic: str, group: str) -> None:
    import uuid

    by_name = commit(client, group, topic, 9, uuid.UUID(int=0))
    by_id = commit(client, group, topic, 10, uuid.uuid4())

    assert by_name.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_id.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_offsets_of_partitions_that_do_not_exist_are_refused_one_by_one(client: RawClient, topic: str, group: str) -> None:
    topic_id = make_topic(client, topic)
    asked = tuple(
        offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="")
        for index in (-1, 0, 2, 1)
    )
    wanted = offset_commit.OffsetCommitRequestTopic(name=topic, partitions=asked)

    reply = client.call(offset_commit.OffsetCommitRequest(group_id=group, topics=(wanted,)), 9).topics[0]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(each.partition_index, each.error_code) for each in reply.partitions] == [
        (-1, unknown),
        (0, NONE),
        (2, unknown),
        (1, NONE),
    ]
    assert fetch(client, group, topic, 9, topic_id, everything=True).partition_index == 0


def test_a_note_that_is_too_long_is_refused(client: RawClient, topic: str, group: str) -> None:
    topic_id = make_topic(client, topic)

    reply = commit(client, group, topic, 9, topic_id, note="x" * 4097)

    assert reply.partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_many_groups_are_asked_about_at_once(client: RawClient, topic: str, group: str) -> None:
    topic_id = make_topic(client, topic)
    commit(client, group, topic, 9, topic_id)
    wanted = offset_fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=(0, 1))
    groups = tuple(offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=(wanted,)) for name in (group, "nobody"))

    reply = client.call(offset_fetch.OffsetFetchRequest(groups=groups, require_stable=True), 9)

    offsets = [[each.committed_offset for each in answer.topics[0].partitions] for answer in reply.groups]
    assert offsets == [[-1, 5], [-1, -1]]


def test_offsets_are_deleted(client: RawClient, topic: str, group: str) -> None:
    topic_id = make_topic(client, topic)
    commit(client, group, topic, 9, topic_id)
    partitions = tuple(offset_delete.OffsetDeleteRequestPartition(partition_index=index) for index in (1, 7))
    asked = tuple(offset_delete.OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in (topic, "nothing"))

    reply = client.call(offset_delete.OffsetDeleteRequest(group_id=group, topics=asked), 0)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    codes = [each.error_code for answer in reply.topics for each in answer.partitions]
    assert (reply.error_code, codes) == (NONE, [NONE, unknown, unknown, unknown])
    assert fetch(client, group, topic, 9, topic_id).committed_offset == -1
    missing = client.call(offset_delete.OffsetDeleteRequest(group_id="nobody", topics=()), 0)
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    nameless = client.call(offset_delete.OffsetDeleteRequest(group_id="", topics=asked), 0)
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID


# --- looking ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(describe_groups, "DescribeGroups"))
def test_groups_are_described_in_every_version(client: RawClient, topic: str, group: str, version: int) -> None:
    sync(client, group, member_of(client, group, topic))

    request = describe_groups.DescribeGroupsRequest(groups=(group, "nobody"), include_authorized_operations=True)
    known, unknown = client.call(request, version).groups

    assert (known.group_state, known.protocol_data, len(known.members)) == ("Stable", "range", 1)
    assert unknown.group_state == "Dead"
    assert unknown.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else NONE)
    if version >= 3:
        # Read, delete, describe, describe and alter settings; nothing is said of a group that is an error.
        assert known.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
        assert unknown.authorized_operations == (-(2**31) if version >= 6 else known.authorized_operations)
    if version >= 6:
        assert unknown.error_message == "Group nobody not found."


@pytest.mark.parametrize("version", versions(list_groups, "ListGroups"))
def test_groups_are_listed_in_every_version(client: RawClient, topic: str, group: str, version: int) -> None:
    sync(client, group, member_of(client, group, topic))

    listed = client.call(list_groups.ListGroupsRequest(states_filter=("stable",), types_filter=("classic",)), version)

    found = next(each for each in listed.groups if each.group_id == group)
    assert found.protocol_type == "consumer"
    if version >= 5:
        assert (found.group_state, found.group_type) == ("Stable", "classic")
        assert all(each.group_state == "Stable" for each in listed.groups)


@pytest.mark.parametrize("version", versions(delete_groups, "DeleteGroups"))
def test_groups_are_deleted_in_every_version(client: RawClient, topic: str, group: str, version: int) -> None:
    topic_id = make_topic(client, topic)
    commit(client, group, topic, 9, topic_id)
    busy = f"{group}-busy"
    member_of(client, busy, topic)

    reply = client.call(delete_groups.DeleteGroupsRequest(groups_names=(group, busy, "nobody")), version)

    codes = {each.group_id: each.error_code for each in reply.results}
    assert codes == {group: NONE, busy: ErrorCode.NON_EMPTY_GROUP, "nobody": ErrorCode.GROUP_ID_NOT_FOUND}


# --- the consumer protocol --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(consumer_group_heartbeat, "ConsumerGroupHeartbeat"))
def test_a_member_of_the_consumer_protocol_joins_and_is_described(
    client: RawClient, topic: str, group: str, version: int
) -> None:
    topic_id = make_topic(client, topic)
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="me",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=(topic,),
        topic_partitions=(),
    )

    reply = client.call(request, version)

    assert (reply.error_code, reply.member_id, reply.member_epoch) == (NONE, "me", 1)
    assert reply.assignment.topic_partitions[0].topic_id == topic_id
    assert sorted(reply.assignment.topic_partitions[0].partitions) == [0, 1]
    asked = consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=(group, "nobody", ""), include_authorized_operations=False
    )
    known, unknown, nameless = client.call(asked, version).groups
    assert (known.group_state, known.group_epoch, known.assignor_name) == ("Stable", 1, "uniform")
    assert known.members[0].assignment.topic_partitions[0].topic_name == topic
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID


def test_a_newer_client_must_choose_its_own_id(client: RawClient, topic: str, group: str) -> None:
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="", member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=(), topic_partitions=()
    )

    assert client.call(request, 1).error_code == ErrorCode.INVALID_REQUEST
    assert client.call(request, 0).member_id != ""
