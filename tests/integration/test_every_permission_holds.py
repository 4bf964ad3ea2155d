"""Each row of the table of permissions, on a broker: who has every right but that one is refused, and with it is not.

The table is walked: a new row is tried with the smallest request of its API (`tests/support/filled.py`), and where that is not
enough to come to the check, `REQUESTS` says what is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from headrace.broker.access.admission import NAMES
from headrace.broker.access.refusals import REFUSALS
from headrace.broker.routes import APIS
from headrace.model.access.acls import RESOURCE_TYPES, AclRule, Operation, Permission, ResourceType
from headrace.model.access.principals import EVERYBODY
from headrace.model.identity import NO_TOPIC_ID
from headrace.security.authorization.authorizer import Authorizer
from headrace.security.authorization.index import AclIndex
from headrace.security.authorization.permissions import PERMISSIONS, Check, Effect, check_of
from headrace.testing import Broker
from headrace.wire.apis import ApiKey
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.fetch import ReplicaState
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.support import share_requests
from tests.support.filled import error_codes, filled
from tests.support.raw import RawClient, ask_until_created, batch
from tests.support.share_member import ShareMember
from tests.support.share_requests import VERSION as SHARE_VERSION
from tests.support.waiting import until

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How to come to a check: the version, fields by their names, and where nothing is refused, what shows that it said yes."""

    version: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    shows: Callable[[Any], bool] | None = None
    # What has to be said on the same connection before.
    first: Any = None


def topic(**values: Any) -> dict[str, Any]:
    return {"name": "orders", "topic": "orders", "topic_name": "orders", **values}


FETCHED = {"session_epoch": -1, "max_wait_ms": 0, "forgotten_topics_data": ()}
NEW_PRODUCER = {"producer_id": -1, "producer_epoch": -1, "transaction_timeout_ms": 60_000}
NEW_TOPIC = {"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": (), "validate_only": True}
UNKNOWN_TOPIC = {"name": "missing", "topic_id": NO_TOPIC_ID, "allow_auto_topic_creation": True}
SETTINGS_OF_TOPIC = {"resource_type": 2, "resource_name": "orders", "configs": (), "configuration_keys": None}
SETTINGS_OF_BROKER = {"resource_type": 4, "resource_name": "1", "configs": (), "configuration_keys": None}
SETTINGS_OF_GROUP = {"resource_type": 32, "resource_name": "group", "configs": (), "configuration_keys": None}
ANY_RULE = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "principal_filter": "User:x",
    "operation": 1,
    "permission_type": 1,
}
RULE = {"resource_type": 2, "principal": "User:x", "host": "*", "operation": 3, "permission_type": 3}
FROM_PRODUCER = Asked(version=3)
READ, WRITE, DESCRIBE, CREATE = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE

# For all rows of an API, and for single ones.
REQUESTS: dict[ApiKey | tuple[ApiKey, Operation, ResourceType], Asked] = {
    ApiKey.PRODUCE: Asked(values={"acks": -1, "records": batch(b"a"), "index": 0}),
    (ApiKey.PRODUCE, WRITE, TRANSACTIONAL_ID): Asked(
        values={
            "acks": -1,
            "transactional_id": "transaction",
            "index": 0,
            "records": batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
        },
    ),
    ApiKey.FETCH: Asked(values=FETCHED),
    (ApiKey.FETCH, Operation.CLUSTER_ACTION, CLUSTER): Asked(version=12, values={**FETCHED, "replica_id": 2}),
    ApiKey.LIST_OFFSETS: Asked(values={"replica_id": -1}),
    ApiKey.METADATA: Asked(values={"name": None}),
    (ApiKey.METADATA, CREATE, CLUSTER): Asked(values=UNKNOWN_TOPIC),
    (ApiKey.METADATA, CREATE, TOPIC): Asked(values=UNKNOWN_TOPIC),
    (ApiKey.METADATA, DESCRIBE, CLUSTER): Asked(
        version=10,
        values={"topics": (), "include_cluster_authorized_operations": True},
        shows=lambda reply: reply.cluster_authorized_operations != 0,
    ),
    (ApiKey.FIND_COORDINATOR, DESCRIBE, GROUP): Asked(values={"key_type": 0}),
    (ApiKey.FIND_COORDINATOR, DESCRIBE, TRANSACTIONAL_ID): Asked(values={"key_type": 1}),
    ApiKey.JOIN_GROUP: Asked(values={"protocol_type": "consumer", "session_timeout_ms": 10_000}),
    ApiKey.DESCRIBE_GROUPS: Asked(values={"groups": ("group",)}),
    ApiKey.LIST_GROUPS: Asked(
        values={"states_filter": (), "types_filter": ()},
        shows=lambda reply: "consumers" in {group.group_id for group in reply.groups},
    ),
    ApiKey.CREATE_TOPICS: Asked(values=NEW_TOPIC),
    (ApiKey.CREATE_TOPICS, Operation.DESCRIBE_CONFIGS, TOPIC): Asked(
        values=NEW_TOPIC, shows=lambda reply: bool(reply.topics[0].configs)
    ),
    ApiKey.DELETE_TOPICS: Asked(values={"name": "missing", "topic_id": NO_TOPIC_ID}),
    (ApiKey.INIT_PRODUCER_ID, WRITE, TRANSACTIONAL_ID): Asked(values={**NEW_PRODUCER, "transactional_id": "other"}),
    ApiKey.INIT_PRODUCER_ID: Asked(values={**NEW_PRODUCER, "transactional_id": None}),
    (ApiKey.ADD_PARTITIONS_TO_TXN, WRITE, TRANSACTIONAL_ID): FROM_PRODUCER,
    (ApiKey.ADD_PARTITIONS_TO_TXN, WRITE, TOPIC): FROM_PRODUCER,
    ApiKey.DESCRIBE_ACLS: Asked(values=ANY_RULE),
    ApiKey.DELETE_ACLS: Asked(values=ANY_RULE),
    ApiKey.CREATE_ACLS: Asked(values=RULE),
    **{
        (api, operation, kind): Asked(values=settings)
        for api, operation in (
            (ApiKey.DESCRIBE_CONFIGS, Operation.DESCRIBE_CONFIGS),
            (ApiKey.ALTER_CONFIGS, Operation.ALTER_CONFIGS),
            (ApiKey.INCREMENTAL_ALTER_CONFIGS, Operation.ALTER_CONFIGS),
        )
        for kind, settings in ((TOPIC, SETTINGS_OF_TOPIC), (CLUSTER, SETTINGS_OF_BROKER), (GROUP, SETTINGS_OF_GROUP))
    },
    ApiKey.CREATE_PARTITIONS: Asked(values={"count": 2, "assignments": None, "validate_only": True}),
    ApiKey.DELETE_GROUPS: Asked(values={"groups_names": ("missing",)}),
    ApiKey.OFFSET_DELETE: Asked(values={"group_id": "consumers"}),  # there has to be one
    ApiKey.ALTER_CLIENT_QUOTAS: Asked(values={"entity_type": "user", "key": "producer_byte_rate", "validate_only": True}),
    ApiKey.UNREGISTER_BROKER: Asked(values={"broker_id": 99}),
    ApiKey.DESCRIBE_CLUSTER: Asked(
        values={"endpoint_type": 1, "include_cluster_authorized_operations": True},
        shows=lambda reply: reply.cluster_authorized_operations != 0,
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Asked(values={"transactional_ids": ("transaction",)}),
    (ApiKey.DESCRIBE_TRANSACTIONS, DESCRIBE, TOPIC): Asked(
        values={"transactional_ids": ("transaction",)}, shows=lambda reply: bool(reply.transaction_states[0].topics)
    ),
    ApiKey.LIST_TRANSACTIONS: Asked(
        values={"state_filters": (), "producer_id_filters": (), "duration_filter": -1, "transactional_id_pattern": None},
        shows=lambda reply: bool(reply.transaction_states),
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Asked(
        values={"subscribed_topic_names": ("orders",), "member_id": "other", "rebalance_timeout_ms": 5000, "topic_partitions": ()}
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Asked(values={"group_ids": ("consumers",)}),
    (ApiKey.FIND_COORDINATOR, Operation.CLUSTER_ACTION, CLUSTER): Asked(
        values={"key_type": 2, "coordinator_keys": ("group:AAAAAAAAAAAAAAAAAAAAAQ:0",)}
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: Asked(values={"subscribed_topic_names": ("orders",), "member_id": "other"}),
    ApiKey.SHARE_GROUP_DESCRIBE: Asked(values={"group_ids": ("sharers",)}),
    ApiKey.SHARE_FETCH: Asked(
        values={"share_session_epoch": 0, "acknowledgement_batches": (), "max_records": 1, "max_bytes": 1000, "max_wait_ms": 0}
    ),
    ApiKey.SHARE_ACKNOWLEDGE: Asked(
        values={"member_id": "ann", "share_session_epoch": 1}, first=share_requests.fetch("group", "ann", 0, NO_TOPIC_ID)
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Asked(values={"group_id": "sharers"}),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Asked(values={"group_id": "idle sharers"}),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Asked(values={"group_id": "idle sharers"}),
}
BY_ID = {
    *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.TXN_OFFSET_COMMIT),
    *(ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE),
}
# Followers from version 15 on say who they are elsewhere.
AS_FOLLOWER = Asked(values={**FETCHED, "replica_state": ReplicaState(replica_id=2, replica_epoch=1)})
NUMBERS = count()
CHECKS = [check for api, permissions in PERMISSIONS.items() if api in APIS for check in permissions.checks]


def key_of(check: Check) -> tuple[ApiKey, Operation, ResourceType]:
    return check.api, check.operation, check.resource_type


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"authorizer": "acl", "super.users": "User:ANONYMOUS"}) as broker:
        with RawClient(broker.bootstrap) as client:
            ask_until_created(client, "orders")
            _have_a_group(client)
            _have_a_transaction(client)
            ShareMember(client, "sharers", "orders").join()
            ShareMember(client, "idle sharers", "orders").join().leave()
        yield broker


def _have_a_group(client: RawClient) -> None:
    found = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("consumers",)), 4)
    assert not found.coordinators[0].error_code
    beat = ConsumerGroupHeartbeatRequest(
        group_id="consumers",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )
    until(lambda: not client.call(beat, 1).error_code, "the group has a member")


def _have_a_transaction(client: RawClient) -> None:
    client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=("transaction",)), 4)
    values = {**NEW_PRODUCER, "transactional_id": "transaction"}
    init = filled(ApiKey.INIT_PRODUCER_ID, 4, values)
    producer = until(lambda: reply if not (reply := client.call(init, 4)).error_code else None, "the transaction has a producer")
    assert producer is not None
    add = topic(
        v3_and_below_transactional_id="transaction",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
    )
    added = client.call(filled(ApiKey.ADD_PARTITIONS_TO_TXN, 3, add), 3)
    assert not set(error_codes(added)) - {0}


def answer(broker: Broker, check: Check, *taken: Check) -> Any:
    """What somebody is told who has every right but these."""
    assert broker.broker is not None
    asked = REQUESTS.get(key_of(check)) or REQUESTS.get(check.api) or Asked()
    version = APIS[check.api].versions.stop - 1 if asked.version is None else asked.version
    ids = {"topic_id": broker.broker.image.topics["orders"].topic_id} if check.api in BY_ID else {}
    values = {
        "group_id": "consumers" if check.api is ApiKey.CONSUMER_GROUP_HEARTBEAT else "group",
        "transactional_id": "idle",
        "v3_and_below_transactional_id": "idle",
    }
    given = {**topic(), **values, **ids, **asked.values}
    if given["name"] == "missing":
        given["name"] = f"missing-{next(NUMBERS)}"  # as naming it may have created it
    request = filled(check.api, version, given)
    broker.broker.parts.access_rules.guard.authorizer = Authorizer(AclIndex([*EVERY_RIGHT, *map(without, taken)]))
    with RawClient(broker.bootstrap) as client:
        if asked.first is not None:
            client.call(asked.first, SHARE_VERSION)
        return client.call(request, version)


EVERY_RIGHT = [
    AclRule(principal=EVERYBODY, operation=Operation.ALL, resource_type=kind, resource_name="*") for kind in RESOURCE_TYPES
]


def without(check: Check) -> AclRule:
    return AclRule(
        permission=Permission.DENY,
        principal=EVERYBODY,
        operation=check.operation,
        resource_type=check.resource_type,
        resource_name="*",
    )


def says_yes(check: Check, reply: Any) -> bool:
    asked = REQUESTS.get(key_of(check)) or REQUESTS.get(check.api) or Asked()
    if asked.shows is not None and check.effect is not Effect.REFUSES:
        return asked.shows(reply)
    return check.error not in set(error_codes(reply))


def name_of(check: Check) -> str:
    return "-".join(part.name for part in key_of(check))


@pytest.mark.parametrize("check", [check for check in CHECKS if check.effect is not Effect.FALLS_BACK], ids=name_of)
def test_who_lacks_one_right_is_refused_and_who_has_it_is_not(broker: Broker, check: Check) -> None:
    others = [each for each in PERMISSIONS[check.api].checks if each.effect is Effect.FALLS_BACK]

    assert says_yes(check, answer(broker, check, *others))
    assert not says_yes(check, answer(broker, check, check, *others))


def test_a_follower_of_today_is_held_to_it_as_one_of_yesterday_is(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    check = check_of(ApiKey.FETCH, Operation.CLUSTER_ACTION, CLUSTER)
    monkeypatch.setitem(REQUESTS, key_of(check), AS_FOLLOWER)

    assert says_yes(check, answer(broker, check))
    assert not says_yes(check, answer(broker, check, check))


@pytest.mark.parametrize("check", [check for check in CHECKS if check.effect is Effect.FALLS_BACK], ids=name_of)
def test_either_of_two_rights_is_enough(broker: Broker, check: Check) -> None:
    rows = PERMISSIONS[check.api].checks
    others = [row for row in rows[rows.index(check) + 1 :] if row.effect in (Effect.REFUSES, Effect.FILTERS)]

    for other in others:
        assert says_yes(other, answer(broker, other, check))
        assert says_yes(other, answer(broker, other, other))


def test_every_api_that_is_refused_before_its_handler_has_a_refusal() -> None:
    assert NAMES.keys() & APIS.keys() <= REFUSALS.keys()
