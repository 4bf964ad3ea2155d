"""The table of API × resource × operation: what each API checks, as Kafka's KafkaApis does, and what follows without it.

What a handler checks it looks up here (`check_of`); docs/permissions.md is generated from here; the tests walk it.  An API
without a row fails a test.  Rows of an API are in the order in which they are checked.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from headrace.declaring import dataclass
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode
from headrace.wire.apis import ApiKey

READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID, USER = ResourceType.TRANSACTIONAL_ID, ResourceType.USER

DENIALS: Final = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


class Audience(Enum):
    """Who is answered at all."""

    ANYBODY = "anybody, signed in or not"
    SIGNED_IN = "whoever is signed in"
    BROKERS = "brokers"


class Effect(Enum):
    """What follows where a check says no."""

    REFUSES = "an error"
    FILTERS = "it is left out of the list"
    WITHHOLDS = "that part of the reply stays empty"
    FALLS_BACK = "the next row decides"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One row.  With `some`, any resource of the type will do; `when` is empty for a check that is always made."""

    api: ApiKey
    operation: Operation
    resource_type: ResourceType
    effect: Effect = Effect.REFUSES
    error: ErrorCode
    when: str = ""
    some: bool = False

    @property
    def is_denial(self) -> bool:
        """Whether a no is something that the audit should know: lists that are filtered and rows that have a next are not."""
        return self.effect is Effect.REFUSES


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """All that an API checks."""

    audience: Audience
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    """A check before it knows its API."""

    operation: Operation
    resource_type: ResourceType
    when: str = ""
    effect: Effect = Effect.REFUSES
    error: ErrorCode | None = None
    some: bool = False

    def of(self, api: ApiKey) -> Check:
        return Check(
            api=api,
            operation=self.operation,
            resource_type=self.resource_type,
            effect=self.effect,
            error=DENIALS[self.resource_type] if self.error is None else self.error,
            when=self.when,
            some=self.some,
        )


FILTERS, WITHHOLDS, FALLS_BACK = Effect.FILTERS, Effect.WITHHOLDS, Effect.FALLS_BACK

_CONFIGS_OF = {
    CLUSTER: "for settings of brokers, levels of their logs, and which metrics clients are asked for",
    TOPIC: "for settings of a topic",
    GROUP: "for settings of a group",
}
_LISTED = "always; a list of all topics shows only those that may be described"
_TRANSACTIONAL = _Row(WRITE, TRANSACTIONAL_ID)
_AUTHORIZED_OPERATIONS = "where the authorized operations are asked for (KIP-430)"

_CHECKED: Final[dict[ApiKey, tuple[_Row, ...]]] = {
    ApiKey.PRODUCE: (_Row(WRITE, TRANSACTIONAL_ID, "for batches of a transaction"), _Row(WRITE, TOPIC)),
    ApiKey.FETCH: (
        _Row(CLUSTER_ACTION, CLUSTER, "for a follower", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        _Row(READ, TOPIC, "for a consumer"),
    ),
    ApiKey.LIST_OFFSETS: (_Row(DESCRIBE, TOPIC),),
    ApiKey.METADATA: (
        _Row(DESCRIBE, TOPIC, _LISTED),
        _Row(CREATE, CLUSTER, "for a topic that would be created", FALLS_BACK),
        _Row(CREATE, TOPIC, "for a topic that would be created"),
        _Row(DESCRIBE, CLUSTER, _AUTHORIZED_OPERATIONS, WITHHOLDS),
    ),
    ApiKey.OFFSET_COMMIT: (_Row(READ, GROUP), _Row(READ, TOPIC)),
    ApiKey.OFFSET_FETCH: (_Row(DESCRIBE, GROUP), _Row(DESCRIBE, TOPIC, _LISTED)),
    ApiKey.FIND_COORDINATOR: (
        _Row(DESCRIBE, GROUP, "for a group's"),
        _Row(DESCRIBE, TRANSACTIONAL_ID, "for a transaction's"),
        _Row(CLUSTER_ACTION, CLUSTER, "for a share group's state"),
    ),
    ApiKey.JOIN_GROUP: (_Row(READ, GROUP),),
    ApiKey.HEARTBEAT: (_Row(READ, GROUP),),
    ApiKey.LEAVE_GROUP: (_Row(READ, GROUP),),
    ApiKey.SYNC_GROUP: (_Row(READ, GROUP),),
    ApiKey.DESCRIBE_GROUPS: (_Row(DESCRIBE, GROUP),),
    ApiKey.LIST_GROUPS: (_Row(DESCRIBE, CLUSTER, "", FALLS_BACK), _Row(DESCRIBE, GROUP, "", FILTERS)),
    ApiKey.CREATE_TOPICS: (
        _Row(CREATE, CLUSTER, "", FALLS_BACK),
        _Row(CREATE, TOPIC),
        _Row(DESCRIBE_CONFIGS, TOPIC, "to see the settings of the new topic", WITHHOLDS),
    ),
    ApiKey.DELETE_TOPICS: (
        _Row(DELETE, CLUSTER, "", FALLS_BACK),
        _Row(DESCRIBE, TOPIC, "for a topic that is named by its id; without it, its name is not told"),
        _Row(DELETE, TOPIC),
    ),
    ApiKey.DELETE_RECORDS: (_Row(DELETE, TOPIC),),
    ApiKey.INIT_PRODUCER_ID: (
        _Row(WRITE, TRANSACTIONAL_ID, "for a transactional producer"),
        _Row(Operation.IDEMPOTENT_WRITE, CLUSTER, "for an idempotent producer", FALLS_BACK),
        _Row(WRITE, TOPIC, "for an idempotent producer", error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, some=True),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_Row(CLUSTER_ACTION, CLUSTER, "", FALLS_BACK), _Row(DESCRIBE, TOPIC)),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _Row(CLUSTER_ACTION, CLUSTER, "from version 4 on, which brokers speak"),
        _Row(WRITE, TRANSACTIONAL_ID, "up to version 3"),
        _Row(WRITE, TOPIC, "up to version 3"),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (_TRANSACTIONAL, _Row(READ, GROUP)),
    ApiKey.END_TXN: (_TRANSACTIONAL,),
    ApiKey.WRITE_TXN_MARKERS: (
        _Row(ALTER, CLUSTER, "to end a transaction by hand", FALLS_BACK),
        _Row(CLUSTER_ACTION, CLUSTER),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (_TRANSACTIONAL, _Row(READ, GROUP), _Row(READ, TOPIC)),
    ApiKey.DESCRIBE_ACLS: (_Row(DESCRIBE, CLUSTER),),
    ApiKey.CREATE_ACLS: (_Row(ALTER, CLUSTER),),
    ApiKey.DELETE_ACLS: (_Row(ALTER, CLUSTER),),
    ApiKey.DESCRIBE_CONFIGS: tuple(_Row(DESCRIBE_CONFIGS, kind, when) for kind, when in _CONFIGS_OF.items()),
    ApiKey.ALTER_CONFIGS: tuple(_Row(ALTER_CONFIGS, kind, when) for kind, when in _CONFIGS_OF.items()),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: tuple(_Row(ALTER_CONFIGS, kind, when) for kind, when in _CONFIGS_OF.items()),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (_Row(ALTER, CLUSTER),),
    ApiKey.DESCRIBE_LOG_DIRS: (_Row(DESCRIBE, CLUSTER),),
    ApiKey.CREATE_PARTITIONS: (_Row(ALTER, TOPIC),),
    ApiKey.DELETE_GROUPS: (_Row(DELETE, GROUP),),
    ApiKey.ELECT_LEADERS: (_Row(ALTER, CLUSTER),),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_Row(ALTER, CLUSTER),),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (_Row(DESCRIBE, CLUSTER),),
    ApiKey.OFFSET_DELETE: (_Row(DELETE, GROUP), _Row(READ, TOPIC)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (_Row(DESCRIBE_CONFIGS, CLUSTER),),
    ApiKey.ALTER_CLIENT_QUOTAS: (_Row(ALTER_CONFIGS, CLUSTER),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (_Row(DESCRIBE, CLUSTER),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (_Row(ALTER, CLUSTER),),
    ApiKey.DESCRIBE_QUORUM: (_Row(DESCRIBE, CLUSTER),),
    ApiKey.UPDATE_FEATURES: (_Row(ALTER, CLUSTER),),
    ApiKey.DESCRIBE_CLUSTER: (_Row(DESCRIBE, CLUSTER, _AUTHORIZED_OPERATIONS, WITHHOLDS),),
    ApiKey.DESCRIBE_PRODUCERS: (_Row(READ, TOPIC),),
    ApiKey.UNREGISTER_BROKER: (_Row(ALTER, CLUSTER),),
    ApiKey.DESCRIBE_TRANSACTIONS: (_Row(DESCRIBE, TRANSACTIONAL_ID), _Row(DESCRIBE, TOPIC, "for its partitions", FILTERS)),
    ApiKey.LIST_TRANSACTIONS: (_Row(DESCRIBE, TRANSACTIONAL_ID, "", FILTERS),),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        _Row(READ, GROUP),
        _Row(DESCRIBE, TOPIC, "for topics that it subscribes to by name; a pattern finds only those"),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (_Row(DESCRIBE, GROUP), _Row(DESCRIBE, TOPIC, "for all topics that its members have")),
    ApiKey.LIST_CONFIG_RESOURCES: (_Row(DESCRIBE_CONFIGS, CLUSTER),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_Row(DESCRIBE, TOPIC, _LISTED),),
    ApiKey.SHARE_GROUP_HEARTBEAT: (_Row(READ, GROUP), _Row(DESCRIBE, TOPIC, "for topics that it subscribes to by name")),
    ApiKey.SHARE_GROUP_DESCRIBE: (_Row(DESCRIBE, GROUP), _Row(DESCRIBE, TOPIC, "for all topics that its members have")),
    ApiKey.SHARE_FETCH: (_Row(READ, GROUP), _Row(READ, TOPIC)),
    ApiKey.SHARE_ACKNOWLEDGE: (_Row(READ, GROUP), _Row(READ, TOPIC)),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (_Row(DESCRIBE, GROUP), _Row(DESCRIBE, TOPIC, _LISTED)),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (_Row(READ, GROUP), _Row(READ, TOPIC)),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (_Row(DELETE, GROUP), _Row(READ, TOPIC)),
}

_OF_BROKERS: Final = (
    ApiKey.ALTER_PARTITION,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
)
_UNCHECKED: Final = {
    ApiKey.API_VERSIONS: Audience.ANYBODY,
    ApiKey.SASL_HANDSHAKE: Audience.ANYBODY,
    ApiKey.SASL_AUTHENTICATE: Audience.ANYBODY,
    # Clients speak of themselves; what they are asked for is not theirs to choose.
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Audience.SIGNED_IN,
    ApiKey.PUSH_TELEMETRY: Audience.SIGNED_IN,
    # Answered as disabled, whoever asks.
    ApiKey.CREATE_DELEGATION_TOKEN: Audience.SIGNED_IN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Audience.SIGNED_IN,
    ApiKey.RENEW_DELEGATION_TOKEN: Audience.SIGNED_IN,
    ApiKey.EXPIRE_DELEGATION_TOKEN: Audience.SIGNED_IN,
}

PERMISSIONS: Final[Mapping[ApiKey, Permissions]] = (
    {api: Permissions(audience=Audience.SIGNED_IN, checks=tuple(row.of(api) for row in rows)) for api, rows in _CHECKED.items()}
    | {api: Permissions(audience=Audience.BROKERS, checks=(_Row(CLUSTER_ACTION, CLUSTER).of(api),)) for api in _OF_BROKERS}
    | {api: Permissions(audience=audience) for api, audience in _UNCHECKED.items()}
)

# Those that need the right of brokers, in some version at least: checked where there are no rules, too.
FOR_BROKERS: Final = frozenset(
    api
    for api, permissions in PERMISSIONS.items()
    for check in permissions.checks
    if check.operation is CLUSTER_ACTION and check.effect is Effect.REFUSES
)

_CHECKS: Final[dict[tuple[int, Operation, ResourceType], Check]] = {
    (check.api, check.operation, check.resource_type): check for row in PERMISSIONS.values() for check in row.checks
}


def check_of(api: int, operation: Operation, resource_type: ResourceType) -> Check:
    """The row that a handler checks; KeyError when the table has none, so that no handler checks what it does not say."""
    return _CHECKS[api, operation, resource_type]
