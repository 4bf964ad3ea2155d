"""The audit trail of real brokers: what was done is in the topic before it is answered, once, and without end to nobody's harm.

Who asks is told here by the client id: what a connection has to do to prove a name is another story."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from itertools import count
from typing import Any

import pytest

from headrace.broker.access.refusals import REFUSALS
from headrace.broker.audit.acts.administrative import ADMINISTRATIVE, ORDINARY
from headrace.broker.routes import APIS
from headrace.model.access.acls import Operation, PatternType, Permission, ResourceType
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_TOPIC_ID
from headrace.model.names import AUDIT
from headrace.security.authorization.permissions import PERMISSIONS
from headrace.testing import Broker
from headrace.wire.apis import ApiKey, messages_of
from headrace.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.support.audit import Event, await_event, changes_of, events_of, operation_of, resources_of
from tests.support.filled import filled
from tests.support.raw import RawClient, ask_until_created, batch, produce
from tests.support.users import take_client_ids_for_users
from tests.support.waiting import until

AUDITED = {"authorizer": "acl", "super.users": "User:root"}
NUMBERS = count()


@pytest.fixture(autouse=True, scope="module")
def _client_ids_are_users() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        take_client_ids_for_users(patch)
        yield


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=AUDITED) as broker:
        with client(broker, "root") as root:
            ask_until_created(root, "orders")
            root.call(produce("orders", batch(b"a", b"b", b"c")), 9)
            found = root.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("group",)), 4)
            assert not found.coordinators[0].error_code
            until(lambda: not commit(root, "group", 1), "the group has an offset")
        yield broker


def client(broker: Broker, name: str) -> RawClient:
    return RawClient(broker.bootstrap, client_id=name)


def creation(name: str, **configs: str) -> CreateTopicsRequest:
    settings = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items())
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=(), configs=settings)
    return CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)


def commit(by: RawClient, group: str, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = (OffsetCommitRequestTopic(name="orders", partitions=(partition,)),)
    reply = by.call(OffsetCommitRequest(group_id=group, topics=topics), 8)
    return int(reply.topics[0].partitions[0].error_code)


def new_events(broker: Broker, act: Callable[[], object]) -> list[Event]:
    """What was recorded by the time that something was answered."""
    before = len(events_of(broker))
    act()
    return events_of(broker)[before:]


# --- the table ----------------------------------------------------------------------------------------------------------------


def test_every_api_is_named_administrative_or_named_not() -> None:
    assert ADMINISTRATIVE.keys().isdisjoint(ORDINARY)
    assert PERMISSIONS.keys() == ADMINISTRATIVE.keys() | ORDINARY, "say in broker/audit/acts/administrative.py what it does"


def test_what_is_administrative_can_be_refused_as_a_whole() -> None:
    assert ADMINISTRATIVE.keys() <= REFUSALS.keys()


@dataclass
class Asked:
    """What to ask of an API so that it does something, and what it is done to."""

    resource: str
    values: dict[str, Any] = field(default_factory=dict)
    version: int | None = None


ORDERS = {"name": "orders", "topic": "orders", "topic_name": "orders"}
RULE = {"resource_type": 2, "resource_name": "x", "principal": "User:x", "host": "*", "operation": 3, "permission_type": 3}
FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": "x",
    "principal_filter": "User:x",
    "operation": 1,
    "permission_type": 1,
}
ACTS: dict[ApiKey, Asked] = {
    ApiKey.CREATE_TOPICS: Asked(
        "TOPIC new", {"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    ),
    ApiKey.DELETE_TOPICS: Asked("TOPIC new", {"name": "new", "topic_id": NO_TOPIC_ID}),
    ApiKey.DELETE_RECORDS: Asked("TOPIC orders", {**ORDERS, "offset": 1, "timeout_ms": 5000}),
    ApiKey.CREATE_PARTITIONS: Asked("TOPIC orders", {**ORDERS, "count": 2, "assignments": None}),
    ApiKey.ALTER_CONFIGS: Asked(
        "TOPIC orders", {"resource_type": 2, "resource_name": "orders", "name": "retention.ms", "value": "1000"}
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Asked(
        "TOPIC orders", {"resource_type": 2, "resource_name": "orders", "name": "retention.ms", "value": "2000"}
    ),
    ApiKey.CREATE_ACLS: Asked("TOPIC x", RULE),
    ApiKey.DELETE_ACLS: Asked("TOPIC x", FILTER),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Asked(
        "USER ann",
        {"name": "ann", "deletions": (), "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p" * 32},
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: Asked(
        "QUOTA user=ann", {"entity_type": "user", "entity_name": "ann", "key": "producer_byte_rate", "value": 1000.0}
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Asked(
        "GROUP sharers", {"group_id": "sharers", "topic_name": "orders", "partition_index": 0, "start_offset": 1}
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Asked("GROUP sharers", {"group_id": "sharers", "topic_name": "orders"}),
    ApiKey.OFFSET_DELETE: Asked("GROUP group", {**ORDERS, "group_id": "group"}),
    ApiKey.OFFSET_COMMIT: Asked(
        "GROUP others",
        {**ORDERS, "group_id": "others", "member_id": "", "generation_id_or_member_epoch": -1, "committed_offset": 2},
        version=8,
    ),
    ApiKey.DELETE_GROUPS: Asked("GROUP group", {"groups_names": ("group",)}),
    ApiKey.LEAVE_GROUP: Asked("GROUP group", {"group_id": "group", "member_id": "", "group_instance_id": "one"}),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Asked("TOPIC orders", {**ORDERS, "replicas": (1,)}),
    ApiKey.ELECT_LEADERS: Asked("TOPIC orders", {**ORDERS, "partitions": (0,)}),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Asked("TOPIC orders", {**ORDERS, "path": "/elsewhere", "partitions": (0,)}),
    ApiKey.UNREGISTER_BROKER: Asked("BROKER 99", {"broker_id": 99}),
    ApiKey.UPDATE_FEATURES: Asked(
        "FEATURE kraft.version", {"feature": "kraft.version", "max_version_level": 1, "upgrade_type": 1}
    ),
    ApiKey.WRITE_TXN_MARKERS: Asked("TOPIC orders", {**ORDERS, "partition_indexes": (0,), "producer_id": 7}),
}


@pytest.mark.parametrize("api", [api for api in ADMINISTRATIVE if api in APIS], ids=lambda api: api.name)
def test_an_act_is_recorded_before_it_is_answered(broker: Broker, api: ApiKey) -> None:
    asked = ACTS[api]
    version = APIS[api].versions.stop - 1 if asked.version is None else asked.version
    request = filled(api, version, asked.values)

    with client(broker, "root") as root:
        root.call(ApiVersionsRequest(client_software_name="tester", client_software_version="1.2"), 3)
        recorded = new_events(broker, lambda: root.call(request, version))

    (event,) = (each for each in recorded if asked.resource in resources_of(each))
    assert operation_of(event).replace("_", "").upper() == api.name.replace("_", "")
    assert event["actor"]["user"]["uid"] == "User:root"
    assert event["src_endpoint"]["ip"] == "127.0.0.1"
    assert event["src_endpoint"]["port"] > 0
    assert event["unmapped"]["client_id"] == "root"
    assert event["unmapped"]["client_software"] == "tester 1.2"
    assert event["unmapped"]["listener"] == "PLAINTEXT"
    assert event["metadata"]["log_provider"] == "broker 1"


CAN_BE_VALIDATED = [api for api in ACTS if "validate_only" in {each.name for each in fields(messages_of(api).request)}]


@pytest.mark.parametrize("api", CAN_BE_VALIDATED, ids=lambda api: api.name)
def test_a_try_that_only_validates_is_no_act(broker: Broker, api: ApiKey) -> None:
    version = APIS[api].versions.stop - 1
    request = filled(api, version, {**ACTS[api].values, "validate_only": True})

    with client(broker, "root") as root:
        assert new_events(broker, lambda: root.call(request, version)) == []


# --- from which value to which --------------------------------------------------------------------------------------------------


def altered(name: str, value: str | None, resource: str = "values", kind: int = 2) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
    resources = (AlterConfigsResource(resource_type=kind, resource_name=resource, configs=(config,)),)
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


def test_a_change_says_from_which_value_to_which(broker: Broker) -> None:
    with client(broker, "root") as root:
        (made,) = new_events(broker, lambda: root.call(creation("values", retention_ms="1000"), 7))
        (changed,) = new_events(broker, lambda: root.call(altered("retention.ms", "2000"), 1))
        (reset,) = new_events(broker, lambda: root.call(altered("retention.ms", None), 1))
        (gone,) = new_events(
            broker,
            lambda: root.call(
                DeleteTopicsRequest(topics=(DeleteTopicState(name="values", topic_id=NO_TOPIC_ID),), timeout_ms=5000), 6
            ),
        )

    assert changes_of(made)["partitions"] == (None, 2)
    assert changes_of(made)["retention.ms"] == (None, "1000")
    assert changes_of(changed) == {"retention.ms": ("1000", "2000")}
    assert changes_of(reset) == {"retention.ms": ("2000", None)}
    assert changes_of(gone)["partitions"] == (2, None)
    assert [event["activity_id"] for event in (made, changed, reset, gone)] == [1, 3, 3, 4]
    assert {event["status_id"] for event in (made, changed, reset, gone)} == {1}


def test_an_act_that_failed_is_recorded_with_the_reason(broker: Broker) -> None:
    with client(broker, "root") as root:
        (event,) = new_events(broker, lambda: root.call(creation("orders"), 7))

    assert (event["status_id"], event["status_code"]) == (2, "TOPIC_ALREADY_EXISTS")
    assert "orders" in event["status_detail"]


def test_a_value_that_could_be_a_secret_is_not_told(broker: Broker) -> None:
    with client(broker, "root") as root:
        (event,) = new_events(broker, lambda: root.call(altered("ssl.keystore.passphrase.of.mine", "pl4nted", "1", kind=4), 1))

    assert "pl4nted" not in str(event)


def test_the_keys_of_a_password_are_nowhere_in_its_event(broker: Broker) -> None:
    salted = b"pl4nted-" * 4
    upsertion = ScramCredentialUpsertion(name="bob", mechanism=1, iterations=4096, salt=b"a salt", salted_password=salted)

    with client(broker, "root") as root:
        request = AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,))
        (event,) = new_events(broker, lambda: root.call(request, 0))

    assert changes_of(event) == {"iterations of SCRAM-SHA-256": (None, 4096)}
    assert "pl4nted" not in str(event)


def test_a_topic_that_a_client_makes_by_naming_it_is_recorded(broker: Broker) -> None:
    with client(broker, "root") as root:
        ask_until_created(root, "named")

    event = await_event(broker, lambda event: "TOPIC named" in resources_of(event))
    assert (operation_of(event), event["activity_id"], event["actor"]["user"]["uid"]) == ("Metadata", 1, "User:root")


def test_commits_without_a_member_are_told_together_and_a_reset_by_itself(broker: Broker) -> None:
    group = f"group-{next(NUMBERS)}"
    with client(broker, "root") as root:
        first = new_events(broker, lambda: commit(root, group, 1))
        onwards = new_events(broker, lambda: [commit(root, group, 2), commit(root, group, 3)])
        (back,) = new_events(broker, lambda: commit(root, group, 1))
    assert first and not onwards  # noqa: PT018
    assert changes_of(back) == {"partition 0: offset": (3, 1)}

    broker.clock.advance(61)

    together = await_event(broker, lambda event: f"GROUP {group}" in resources_of(event) and event.get("count", 0) > 1)
    assert together["count"] == 2


# --- denials ------------------------------------------------------------------------------------------------------------------


def test_a_denial_is_told_at_once_and_those_like_it_together(broker: Broker) -> None:
    with client(broker, "eve") as eve:
        for _ in range(5):
            eve.call(produce("orders", batch(b"x")), 9)

    denial = await_event(broker, lambda event: event["actor"]["user"]["uid"] == "User:eve")
    assert denial["status_code"] == "TOPIC_AUTHORIZATION_FAILED"
    assert denial["status_detail"] == "no: no rule allows it"
    assert (operation_of(denial), denial["unmapped"]["operation"]) == ("Produce", "WRITE")
    assert (denial["unmapped"]["client_id"], denial["src_endpoint"]["ip"]) == ("eve", "127.0.0.1")
    broker.clock.advance(61)
    total = until(
        lambda: (
            sum(event["count"] for event in events_of(broker) if "TOPIC orders" in resources_of(event) and by(event, "eve")) == 5
        )
    )
    assert total


def by(event: Event, name: str) -> bool:
    return bool("actor" in event and event["actor"]["user"]["uid"] == f"User:{name}")


def test_an_act_that_is_denied_is_a_denial_and_not_an_act(broker: Broker) -> None:
    with client(broker, "mallory") as mallory:
        for _ in range(20):
            reply = mallory.call(creation("forbidden"), 7)
            assert reply.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    event = await_event(broker, lambda event: by(event, "mallory"))
    assert "count" in event
    assert len([event for event in events_of(broker) if by(event, "mallory")]) == 1


def test_a_list_that_is_filtered_denies_nobody_anything(broker: Broker) -> None:
    with client(broker, "trudy") as trudy, client(broker, "victor") as victor:
        assert trudy.call(MetadataRequest(topics=None), 12).topics == ()
        victor.call(MetadataRequest(topics=(MetadataRequestTopic(name="orders"),)), 12)

    await_event(broker, lambda event: by(event, "victor"))
    assert not [event for event in events_of(broker) if by(event, "trudy")]


# --- the topic ----------------------------------------------------------------------------------------------------------------


def rule(principal: str, name: str, pattern: PatternType = PatternType.LITERAL) -> AclCreation:
    return AclCreation(
        principal=principal,
        operation=Operation.READ,
        resource_name=name,
        resource_type=ResourceType.TOPIC,
        resource_pattern_type=pattern,
        host="*",
        permission_type=Permission.ALLOW,
    )


def read_audit(broker: Broker, name: str) -> int:
    wanted = FetchTopic(topic=AUDIT, partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20),))
    with client(broker, name) as reader:
        reply = reader.call(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=(wanted,)), 12)
    return int(reply.responses[0].partitions[0].error_code)


def test_reading_needs_a_right_that_names_the_topic(broker: Broker) -> None:
    rules = (
        rule("User:everything", "*"),
        rule("User:auditor", AUDIT),
        rule("User:short", "_", PatternType.PREFIXED),
        rule("User:prefixed", AUDIT, PatternType.PREFIXED),
    )
    with client(broker, "root") as root:
        root.call(CreateAclsRequest(creations=rules), 3)

    assert read_audit(broker, "everything") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert read_audit(broker, "short") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert read_audit(broker, "auditor") == ErrorCode.NONE
    assert read_audit(broker, "prefixed") == ErrorCode.NONE
    assert read_audit(broker, "root") == ErrorCode.NONE


@pytest.mark.parametrize("name", ["root", "__admin_client", "auditor"])
def test_nobody_but_brokers_writes_it(broker: Broker, name: str) -> None:
    with client(broker, name) as writer:
        reply = writer.call(produce(AUDIT, batch(b"forged")), 9)

    assert reply.responses[0].partition_responses[0].error_code in (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
    assert b"forged" not in str(events_of(broker)).encode()


def test_nobody_deletes_it_or_anything_in_it(broker: Broker) -> None:
    with client(broker, "root") as root:
        deletion = DeleteTopicsRequest(topics=(DeleteTopicState(name=AUDIT, topic_id=NO_TOPIC_ID),), timeout_ms=5000)
        assert root.call(deletion, 6).responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        records = filled(ApiKey.DELETE_RECORDS, 2, {"name": AUDIT, "offset": 1})
        assert root.call(records, 2).topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        more = filled(ApiKey.CREATE_PARTITIONS, 3, {"name": AUDIT, "count": 2, "assignments": None})
        assert root.call(more, 3).results[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_what_clients_do_is_not_made_by_hand(broker: Broker) -> None:
    with Broker(settings={"headrace.audit": "off"}) as other, client(other, "root") as root:
        assert root.call(creation(AUDIT), 7).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
