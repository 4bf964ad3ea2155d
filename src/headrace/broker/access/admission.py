"""What is decided before a request reaches its handler: where one no is about all of it.

That is so for APIs that only ask about the cluster, and for those about one group or one transactional id.  Which rights they
need is in the table of permissions; here is where in a request the names are.  What is about single topics, groups or ids among
several is decided where they are gone through, by the handler.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.broker.access.refusals import REFUSALS
from headrace.broker.handlers.add_partitions_to_txn import FROM_BROKERS_SINCE
from headrace.broker.network.dispatch import RequestContext
from headrace.model.access.acls import CLUSTER_NAME, ResourceType
from headrace.security.authorization.guard import ANY_NAME
from headrace.security.authorization.permissions import PERMISSIONS, Check, Effect, Permissions
from headrace.wire.apis import ApiKey
from headrace.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest

CLUSTER, GROUP, TOPIC = ResourceType.CLUSTER, ResourceType.GROUP, ResourceType.TOPIC
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

# The resources that a request of some version is about as a whole; rows of the table about others are the handler's.
Names = Mapping[ResourceType, str]
NamesOf = Callable[[Any, int], Names]


def _cluster(request: Any, version: int) -> Names:
    return {CLUSTER: CLUSTER_NAME}


def _group(request: Any, version: int) -> Names:
    return {GROUP: request.group_id}


def _transaction(request: Any, version: int) -> Names:
    return {TRANSACTIONAL_ID: request.transactional_id}


def _transaction_and_group(request: Any, version: int) -> Names:
    return {TRANSACTIONAL_ID: request.transactional_id, GROUP: request.group_id}


def _init_producer_id(request: InitProducerIdRequest, version: int) -> Names:
    if request.transactional_id is not None:
        return {TRANSACTIONAL_ID: request.transactional_id}
    return {CLUSTER: CLUSTER_NAME, TOPIC: ANY_NAME}


def _add_partitions_to_txn(request: AddPartitionsToTxnRequest, version: int) -> Names:
    if version >= FROM_BROKERS_SINCE:
        return {CLUSTER: CLUSTER_NAME}
    return {TRANSACTIONAL_ID: request.v3_and_below_transactional_id}


def _asks_only_about_the_cluster(permissions: Permissions) -> bool:
    return bool(permissions.checks) and all(
        check.resource_type is CLUSTER and check.effect in (Effect.REFUSES, Effect.FALLS_BACK) for check in permissions.checks
    )


NAMES: Final[Mapping[int, NamesOf]] = {
    **{api: _cluster for api, permissions in PERMISSIONS.items() if _asks_only_about_the_cluster(permissions)},
    ApiKey.JOIN_GROUP: _group,
    ApiKey.SYNC_GROUP: _group,
    ApiKey.HEARTBEAT: _group,
    ApiKey.LEAVE_GROUP: _group,
    ApiKey.OFFSET_COMMIT: _group,
    ApiKey.OFFSET_DELETE: _group,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _group,
    ApiKey.SHARE_GROUP_HEARTBEAT: _group,
    ApiKey.SHARE_FETCH: _group,
    ApiKey.SHARE_ACKNOWLEDGE: _group,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _group,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _group,
    ApiKey.END_TXN: _transaction,
    ApiKey.ADD_OFFSETS_TO_TXN: _transaction_and_group,
    ApiKey.TXN_OFFSET_COMMIT: _transaction_and_group,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
}


def refusal(request: Any, context: RequestContext) -> Any:
    """What to answer to a request that its sender may not make; None where they may, or where the handler decides."""
    names_of = NAMES.get(context.api_key)
    if names_of is None:
        return None
    check = _lacking(names_of(request, context.api_version), context)
    return None if check is None else REFUSALS[context.api_key](request, check.error)


def _lacking(names: Names, context: RequestContext) -> Check | None:
    """The first row of the table that says no."""
    is_settled = False  # by the row before, which needs no other
    for check in PERMISSIONS[ApiKey(context.api_key)].checks:
        name = names.get(check.resource_type)
        if name is None:
            continue
        if is_settled:
            is_settled = False
        elif context.guard.allows(context.subject, check, name, context):
            is_settled = check.effect is Effect.FALLS_BACK
        elif check.effect is Effect.REFUSES:
            return check
    return None
