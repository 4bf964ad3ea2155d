"""The table of APIs: which are administrative, and who describes what they do; which are not.

Every API is in one of the two.  A new one without a row fails a test.
"""

from collections.abc import Mapping
from typing import Final

from headrace.broker.audit.acts import access, cluster, configs, groups, share_groups, topics
from headrace.broker.audit.acts.act import Describe
from headrace.wire.apis import ApiKey

ADMINISTRATIVE: Final[Mapping[ApiKey, Describe]] = {
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: topics.delete_records,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.ALTER_CONFIGS: configs.alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.alter_configs,
    ApiKey.CREATE_ACLS: access.create_acls,
    ApiKey.DELETE_ACLS: access.delete_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: access.alter_scram_credentials,
    ApiKey.ALTER_CLIENT_QUOTAS: access.alter_client_quotas,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.OFFSET_DELETE: groups.offset_delete,
    ApiKey.OFFSET_COMMIT: groups.offset_commit,  # without a member
    ApiKey.LEAVE_GROUP: groups.leave_group,  # in the name of others
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: share_groups.alter_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: share_groups.delete_offsets,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster.alter_partition_reassignments,
    ApiKey.ELECT_LEADERS: cluster.elect_leaders,
    ApiKey.ALTER_REPLICA_LOG_DIRS: cluster.alter_replica_log_dirs,
    ApiKey.UNREGISTER_BROKER: cluster.unregister_broker,
    ApiKey.UPDATE_FEATURES: cluster.update_features,
    ApiKey.WRITE_TXN_MARKERS: cluster.write_txn_markers,  # by somebody who is no broker
}

# What clients do to get their work done, what only reads, what brokers say among themselves, and what is answered as disabled.
ORDINARY: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,  # a topic that it makes by the way is recorded by whoever makes it
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.SYNC_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_PARTITION,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
)
