"""Kafka's command-line tools as a story of commands: with which code each ends and what it says, here and at Apache Kafka 4.3.1.

What a row expects holds for both, unless it names Kafka's own exit code and why ours is another.  `make compat-java` plays the
story against a broker of ours, and with ARGS=--against=HOST:PORT against a fresh Apache Kafka, to see that the rows are right.
"""

from dataclasses import dataclass

FEATURE_LEVELS = "each feature runs at its one level; none can be turned down"
NO_RAFT = "there is no Raft quorum of controllers and no metadata.version or kraft.version: the metadata is in the store"
OUR_NAMES = "loggers carry our names"


@dataclass(frozen=True, slots=True)
class Case:
    """One command.  `{files}` is a folder with the JSON below in it; `says` are patterns, each found in what the tool prints."""

    command: str
    code: int
    says: tuple[str, ...]
    given: str = ""
    kafka_code: int | None = None
    why: str = ""


def case(command: str, code: int, *says: str, given: str = "", kafka: int | None = None, why: str = "") -> Case:
    assert (kafka is None) == (not why), command
    return Case(command, code, says, given, kafka, why)


TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}

FILES = {
    "delete.json": {"partitions": [{"topic": "alpha", "partition": 1, "offset": 1}], "version": 1},
    "delete-far.json": {"partitions": [{"topic": "alpha", "partition": 1, "offset": 2000}], "version": 1},
    "elect.json": {"partitions": [{"topic": "alpha", "partition": 0}]},
    "topics.json": {"topics": [{"topic": "alpha"}], "version": 1},
    "plan.json": {"version": 1, "partitions": [{"topic": "alpha", "partition": 0, "replicas": [1], "log_dirs": ["any"]}]},
    "plan-broker.json": {"version": 1, "partitions": [{"topic": "alpha", "partition": 0, "replicas": [7]}]},
    "plan-directory.json": {
        "version": 1,
        "partitions": [{"topic": "alpha", "partition": 0, "replicas": [1], "log_dirs": ["/nowhere"]}],
    },
}

TOPICS = (
    case("topics --create --topic alpha --partitions 2 --replication-factor 1 --config retention.ms=86400000", 0, "Created"),
    case("topics --create --topic alpha", 1, "Topic 'alpha' already exists"),
    case("topics --create --topic alpha --if-not-exists", 0),
    case("topics --create --topic bad/name", 1, "bad/name"),
    case("topics --create --topic beta --replication-factor 3", 1, "[Rr]eplication factor"),
    case("topics --create --topic beta --config nothing=1", 1, "Unknown topic config name: nothing"),
    case("topics --create --topic beta --config segment.bytes=14", 1, "at least 1048576"),
    case("topics --create --topic beta --replica-assignment 1,1", 0, "Created topic beta"),
    case("topics --list", 0, "^alpha$", "^beta$"),
    case("topics --list --exclude-internal", 0, "^alpha$"),
    case(
        "topics --describe",
        0,
        "Topic: alpha\tTopicId: .*PartitionCount: 2\tReplicationFactor: 1\tConfigs: .*retention.ms=86400000",
    ),
    case(
        "topics --describe --topic alpha", 0, "Topic: alpha\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
    ),
    case("topics --describe --topic nothing", 1, "Topic 'nothing' does not exist"),
    case("topics --describe --under-replicated-partitions", 0),
    case("topics --describe --unavailable-partitions", 0),
    case("topics --describe --under-min-isr-partitions", 0),
    case("topics --describe --at-min-isr-partitions", 0, "Topic: alpha\tPartition: 0"),
    case("topics --describe --topics-with-overrides", 0, "Topic: alpha\t.*retention.ms=86400000"),
    case("topics --alter --topic alpha --partitions 3", 0),
    case("topics --alter --topic alpha --partitions 2", 1, "currently has 3 partition"),
    case("topics --alter --topic nothing --partitions 2", 1, "does not exist"),
    case("topics --delete --topic nothing", 1, "does not exist"),
    case("topics --delete --topic beta", 0),
)

RECORDS = (
    case(
        "console-producer --topic alpha --reader-property parse.key=true --reader-property key.separator=:",
        0,
        given="a:1\nb:2\nc:3\nd:4\n",
    ),
    case(
        "console-consumer --topic alpha --from-beginning --max-messages 4 --group readers --timeout-ms 30000",
        0,
        "^4$",
        "total of 4",
    ),
    case(
        "console-consumer --topic alpha --partition 1 --offset earliest --max-messages 1 --timeout-ms 30000"
        " --formatter-property print.key=true --formatter-property print.offset=true",
        0,
        "Offset:0\t[a-d]\t[1-4]",
    ),
    case("get-offsets --topic alpha", 0, "alpha:0:0", "alpha:1:2", "alpha:2:2"),
    case("get-offsets --topic alpha --time -2", 0, "alpha:1:0"),
    case("get-offsets --topic alpha --time -3", 0, "alpha:1:[01]"),
    case("get-offsets --topic alpha --time -4", 0, "alpha:1:0"),
    case("get-offsets --topic alpha --time -5", 0),
    case("get-offsets --topic nothing", 1, "Could not match any topic-partitions"),
    case("get-offsets --topic-partitions alpha:0,alpha:1", 0, "alpha:1:2"),
    case("delete-records --offset-json-file {files}/delete.json", 0, "partition: alpha-1\tlow_watermark: 1"),
    case("delete-records --offset-json-file {files}/delete-far.json", 0, "partition: alpha-1\terror: .*OffsetOutOfRange"),
    case("producer-perf-test --topic alpha --num-records 200 --record-size 100 --throughput -1", 0, "200 records sent"),
    case("consumer-perf-test --topic alpha --num-records 200 --timeout 30000", 0, "data.consumed.in.nMsg"),
    case("verifiable-producer --topic alpha --max-messages 3", 0, "startup_complete"),
    case(
        "verifiable-consumer --topic alpha --group-id verified --max-messages 3 --reset-policy earliest",
        0,
        "offsets_committed",
        "shutdown_complete",
    ),
)

GROUPS = (
    case("consumer-groups --list", 0, "^readers$"),
    case("consumer-groups --list --state", 0, "readers +Empty"),
    case("consumer-groups --list --type", 0, "readers +Classic"),
    case("consumer-groups --describe --group readers", 0, "has no active members", "readers +alpha +2 +2 +"),
    case("consumer-groups --describe --group readers --offsets --verbose", 0, "LEADER-EPOCH"),
    case("consumer-groups --describe --group readers --members", 0, "#PARTITIONS"),
    case("consumer-groups --describe --group readers --members --verbose", 0, "#PARTITIONS"),
    case("consumer-groups --describe --group readers --state", 0, r"readers .*\(1\) .*Empty +0"),
    case("consumer-groups --describe --group readers --state --verbose", 0, "Empty"),
    case("consumer-groups --describe --all-groups", 0, "readers +alpha"),
    case("consumer-groups --describe --group nothing", 0, "GroupIdNotFoundException: .*roup nothing not found"),
    case("consumer-groups --reset-offsets --group readers --topic alpha --to-earliest --dry-run", 0, "readers +alpha +2 +0"),
    case("consumer-groups --reset-offsets --group readers --topic alpha --to-earliest --execute", 0, "readers +alpha +2 +0"),
    case("consumer-groups --reset-offsets --group readers --topic alpha --shift-by 1 --execute --export", 0, "^alpha,2,1"),
    case(
        "consumer-groups --reset-offsets --group readers --topic alpha --to-datetime 2020-01-01T00:00:00.000 --dry-run",
        0,
        "readers +alpha +2 +0",
    ),
    case("consumer-groups --delete-offsets --group readers --topic alpha", 0, "Request succeeded", "alpha +0 +Successful"),
    case("consumer-groups --delete --group readers", 0, r"\('readers'\) was successful"),
    case("consumer-groups --delete --group nothing", 0, "could not be deleted due to: .*GroupIdNotFoundException"),
    case("groups --list", 0, "GROUP +TYPE +PROTOCOL", "verified +Classic +consumer"),
    case("groups --list --consumer", 0, "verified"),
    case("groups --list --group-type classic", 0, "verified"),
    case("streams-groups --list", 0),
)

BEGIN_AGAIN = "share-groups --reset-offsets --group workers --topic jobs --to-earliest"
SHARE_GROUPS = (
    case("topics --create --topic jobs --partitions 1 --replication-factor 1", 0, "Created"),
    case(
        "configs --entity-type groups --entity-name workers --alter --add-config share.auto.offset.reset=earliest", 0, "Completed"
    ),
    case("console-producer --topic jobs", 0, given="one\ntwo\nthree\n"),
    case(
        "console-share-consumer --topic jobs --group workers --max-messages 3 --timeout-ms 30000",
        0,
        "^one$",
        "^three$",
        "Processed a total of 3 messages",
    ),
    case("share-groups --list", 0, "^workers"),
    case("share-groups --list --state", 0, "GROUP +STATE", "workers +Empty"),
    case("share-groups --describe --group workers", 0, "START-OFFSET +LAG", "workers +jobs +0 +3 +0"),
    case("share-groups --describe --group workers --offsets --verbose", 0, "workers +jobs +0 +0 +3 +0"),
    case("share-groups --describe --group workers --state", 0, r"workers .*\(1\) +Empty +0"),
    case("share-groups --describe --group workers --members", 0, "'workers' has no active members"),
    case("share-groups --describe --group nothing", 0, "GroupIdNotFoundException: .*roup nothing not found"),
    case(f"{BEGIN_AGAIN} --dry-run", 0, "workers +jobs +0 +0"),
    case(f"{BEGIN_AGAIN} --execute", 0, "workers +jobs +0 +0"),
    case("share-groups --describe --group workers", 0, "workers +jobs +0 +0 +3"),
    case(
        "verifiable-share-consumer --topic jobs --group-id workers --max-messages 3",
        0,
        '"records_consumed","count":3',
        '"offsets_acknowledged","count":3.*"success":true',
    ),
    case(f"{BEGIN_AGAIN} --execute", 0, "workers +jobs +0 +0"),
    case("share-consumer-perf-test --topic jobs --group workers --num-records 3 --timeout 30000", 0, ", 3, [0-9]+$"),
    case("groups --list --group-type share", 0, "workers +Share +share"),
    case("share-groups --delete-offsets --group workers --topic jobs", 0, "jobs +Successful"),
    case("share-groups --delete --group workers", 0, r"\('workers'\) was successful"),
    case("share-groups --delete --group nothing", 0, "Group 'nothing' is not a share group"),
    case("configs --entity-type groups --entity-name workers --alter --add-config share.isolation.level=none", 1, "Invalid"),
    case(
        "configs --entity-type groups --entity-name workers --alter --add-config share.delivery.count.limit=99",
        1,
        "group.share.max.delivery.count.limit",
    ),
    case("configs --entity-type groups --entity-name workers --alter --delete-config share.auto.offset.reset", 0, "Completed"),
)

GROUP = "configs --entity-type groups --entity-name readers"
SETTINGS_OF_GROUPS = (
    case(f"{GROUP} --describe", 0, "The group 'readers' doesn't exist and doesn't have dynamic config"),
    case(
        f"{GROUP} --alter --add-config consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000",
        0,
        "Completed updating config for group readers",
    ),
    case(
        f"{GROUP} --describe",
        0,
        "consumer.session.timeout.ms=50000 .*DYNAMIC_GROUP_CONFIG:.*DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000",
    ),
    case(f"{GROUP} --describe --all", 0, "consumer.assignment.interval.ms="),
    case("configs --entity-type groups --describe", 0, "Dynamic configs for group readers are"),
    case(f"{GROUP} --alter --add-config consumer.session.timeout.ms=5", 1, "group.consumer.min.session.timeout.ms"),
    case(f"{GROUP} --alter --add-config consumer.session.timeout.ms=70000", 1, "group.consumer.max.session.timeout.ms"),
    case(f"{GROUP} --alter --add-config consumer.heartbeat.interval.ms=1", 1, "group.consumer.min.heartbeat.interval.ms"),
    case(f"{GROUP} --alter --add-config consumer.heartbeat.interval.ms=70000", 1, "group.consumer.max.heartbeat.interval.ms"),
    case(f"{GROUP} --alter --add-config consumer.heartbeat.interval.ms=soon", 1, "InvalidConfigurationException: .*soon"),
    case(f"{GROUP} --alter --add-config consumer.assignment.interval.ms=-1", 1, "InvalidConfigurationException"),
    case(f"{GROUP} --alter --add-config nothing=1", 1, "InvalidConfigurationException: .*nothing"),
    case(f"{GROUP} --alter --delete-config nothing", 0, "Completed"),
    case(f"{GROUP} --alter --delete-config consumer.session.timeout.ms,consumer.heartbeat.interval.ms", 0, "Completed"),
    case(f"{GROUP} --describe", 0, "doesn't have dynamic config"),
)

TOPIC = "configs --entity-type topics --entity-name alpha"
BROKER = "configs --entity-type brokers --entity-name 1"
BROKERS = "configs --entity-type brokers --entity-default"
SETTINGS = (
    case(f"{TOPIC} --describe", 0, "retention.ms=86400000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=86400000"),
    case(f"{TOPIC} --describe --all", 0, "^  cleanup.policy=delete .*DEFAULT_CONFIG:log.cleanup.policy=delete"),
    case("configs --entity-type topics --entity-name nothing --describe", 0, "The topic 'nothing' doesn't exist"),
    case("configs --entity-type topics --describe", 0, "topic __consumer_offsets are", "cleanup.policy=compact"),
    case(f"{TOPIC} --alter --add-config retention.ms=1000000,cleanup.policy=[compact,delete]", 0, "Completed"),
    case(f"{TOPIC} --alter --add-config retention.ms=soon", 1, "InvalidConfigurationException: .*soon"),
    case(f"{TOPIC} --alter --add-config nothing=1", 1, "InvalidConfigurationException: .*nothing"),
    case(f"{TOPIC} --alter --delete-config retention.ms,cleanup.policy", 0, "Completed"),
    case(f"{TOPIC} --alter --delete-config nothing", 0, "Completed"),
    case(f"{BROKER} --describe", 0, "Dynamic configs for broker 1 are"),
    case(f"{BROKER} --describe --all", 0, "^  node.id=1 ", "^  num.partitions=1 "),
    case(f"{BROKERS} --describe", 0, "Default configs for brokers in the cluster are"),
    case("configs --entity-type brokers --describe", 0, "Dynamic configs for broker 1 are"),
    case(f"{BROKER} --alter --add-config log.retention.ms=100000000", 0, "Completed"),
    case(f"{BROKERS} --alter --add-config log.retention.ms=200000000", 0, "Completed updating default config"),
    case(
        f"{BROKER} --describe",
        0,
        "{DYNAMIC_BROKER_CONFIG:log.retention.ms=100000000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=200000000",
    ),
    case(f"{BROKER} --alter --delete-config log.retention.ms", 0, "Completed"),
    case(f"{BROKERS} --alter --delete-config log.retention.ms", 0, "Completed"),
    case(f"{BROKER} --alter --add-config node.id=7", 1, "InvalidRequestException: .*node.id"),
    case("configs --entity-type users --entity-name ada --alter --add-config producer_byte_rate=1000000", 0, "Completed"),
    case("configs --entity-type clients --entity-default --alter --add-config request_percentage=200", 0, "Completed"),
    case("configs --entity-type users --describe", 0, "user-principal 'ada' are producer_byte_rate=1000000.0"),
    case("configs --entity-type users --entity-name ada --describe", 0, "producer_byte_rate=1000000.0"),
    case("configs --entity-type clients --describe", 0, "default client-id are request_percentage=200.0"),
    case("configs --entity-type users --entity-name ada --alter --delete-config producer_byte_rate", 0, "Completed"),
    case("configs --entity-type clients --entity-default --alter --delete-config request_percentage", 0, "Completed"),
    case("configs --entity-type ips --entity-name 127.0.0.9 --alter --add-config connection_creation_rate=100", 0, "Completed"),
    case("configs --entity-type ips --describe", 0, "ip '127.0.0.9' are connection_creation_rate=100.0"),
    case("configs --entity-type ips --entity-name 127.0.0.9 --alter --delete-config connection_creation_rate", 0, "Completed"),
    case("client-metrics --alter --name m --interval 1000 --metrics org.apache --match client_id=nobody", 0),
    case("client-metrics --list", 0, "m"),
    case("client-metrics --describe --name m", 0, "interval.ms=1000"),
    case("client-metrics --alter --name m --interval 1", 1, "interval.ms"),
    case("client-metrics --delete --name m", 0),
    case("client-metrics --describe", 0),
    case("configs --entity-type client-metrics --describe", 0),
)

LOGGER = "configs --entity-type broker-loggers --entity-name 1"
LOGGERS = (
    case(f"{LOGGER} --describe", 0, "^  root=[A-Z]+ sensitive=false synonyms={}"),
    case(f"{LOGGER} --alter --add-config root=INFO", 0, "Completed updating config for broker-logger 1"),
    case(f"{LOGGER} --describe", 0, "^  root=INFO "),
    case(f"{LOGGER} --alter --add-config root=WARN", 0, "Completed"),
    case(f"{LOGGER} --alter --add-config root=LOUD", 1, "Cannot set the log level of root to LOUD"),
    case(f"{LOGGER} --alter --add-config nowhere=INFO", 1, "Invalid broker logger"),
    case(f"{LOGGER} --alter --delete-config root", 1, "InvalidRequestException"),
    case(f"{LOGGER} --alter --add-config headrace.broker.network.dispatch=ERROR", 0, "Completed", kafka=1, why=OUR_NAMES),
    case(f"{LOGGER} --alter --delete-config headrace.broker.network.dispatch", 0, "Completed", kafka=1, why=OUR_NAMES),
    case("configs --entity-type broker-loggers --describe", 1, "An entity name must be specified"),
)

CLUSTER = (
    case("metadata-quorum describe --status", 0, "^LeaderId: +1$", "^MaxFollowerLag: +0$", '^CurrentVoters: +.*"id": 1'),
    case("metadata-quorum describe --replication", 0, r"^1 +\t\S+\t[0-9]+ *\t0 +\t[0-9]+ *\t[0-9]+ *\tLeader"),
    case("metadata-quorum describe --replication --human-readable", 0, "ms ago"),
    case(
        "metadata-quorum remove-controller --controller-id 7 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ",
        1,
        "VoterNotFoundException|UnsupportedVersionException",
    ),
    case(
        "features describe", 0, "^Feature: group.version .*FinalizedVersionLevel: 1", "^Feature: transaction.version .*Level: 2"
    ),
    case("features upgrade --feature nothing=1", 1, "Invalid update version 1 for feature nothing"),
    case("features upgrade --feature group.version=2", 1, "Invalid update version 2 for feature group.version"),
    case("features upgrade --feature group.version=1", 0, "group.version was upgraded to 1"),
    case("features downgrade --feature transaction.version=3", 1, "Invalid update version 3"),
    case("features downgrade --feature transaction.version=1", 1, "the only one", kafka=0, why=FEATURE_LEVELS),
    case("features upgrade --feature transaction.version=2", 0, "upgraded to 2"),
    case("features disable --feature group.version", 1, "Could not disable group.version", kafka=0, why=FEATURE_LEVELS),
    case("features upgrade --feature group.version=1", 0, "upgraded to 1"),
    case("features upgrade --release-version 4.3", 1, "does not have this feature", kafka=0, why=NO_RAFT),
    case("features version-mapping", 0, "transaction.version=2"),
    case("features feature-dependencies --feature transaction.version=2", 0, "has no dependencies"),
    case("cluster cluster-id", 0, "^Cluster ID: [A-Za-z0-9_-]{22}$"),
    case("cluster list-endpoints", 0, "^1 +127.0.0.1 +[0-9]+ +null +unfenced +broker"),
    case("cluster list-endpoints --include-fenced-brokers", 0, "unfenced"),
    case("cluster unregister --id 7", 1, "BrokerIdNotRegisteredException"),
    case(
        "broker-api-versions", 0, r"Produce\(0\): 0 to 13", r"DescribeQuorum\(55\): 0 to 2", r"ListConfigResources\(74\): 0 to 1"
    ),
    case("acls --list", 1, "SecurityDisabledException|UnsupportedVersionException"),
)

PARTITIONS = (
    case("log-dirs --describe", 0, '"partition":"alpha-1"'),
    case("log-dirs --describe --topic-list alpha", 0, '"partition":"alpha-1","size":[0-9]+,"offsetLag":0,"isFuture":false'),
    case("log-dirs --describe --topic-list nothing", 0, '"partitions":\\[\\],"error":null'),
    case("log-dirs --describe --broker-list 1", 0, '"broker":1'),
    case("log-dirs --describe --broker-list 7", 1, "do not exist"),
    case(
        "reassign-partitions --generate --topics-to-move-json-file {files}/topics.json --broker-list 1",
        0,
        "Proposed partition reassignment",
    ),
    case("reassign-partitions --execute --reassignment-json-file {files}/plan.json", 0, "Successfully started partition"),
    case("reassign-partitions --execute --reassignment-json-file {files}/plan-broker.json", 1, "Unknown broker id 7"),
    case(
        "reassign-partitions --execute --reassignment-json-file {files}/plan-directory.json --timeout 3000",
        1,
        "LogDirNotFoundException",
    ),
    case("reassign-partitions --verify --reassignment-json-file {files}/plan.json", 0, "alpha-0 is completed"),
    case("reassign-partitions --list", 0, "No partition reassignments found"),
    case("reassign-partitions --cancel --reassignment-json-file {files}/plan.json", 0, "are active"),
    case("leader-election --election-type preferred --topic alpha --partition 0", 0, "Valid replica already elected"),
    case("leader-election --election-type unclean --topic alpha --partition 0", 0, "Valid replica already elected"),
    case("leader-election --election-type preferred --all-topic-partitions", 0),
    case("leader-election --election-type preferred --path-to-json-file {files}/elect.json", 0, "Valid replica"),
    case("leader-election --election-type preferred --topic nothing --partition 0", 1, "UnknownTopicOrPartitionException"),
)

TRANSACTIONS = (
    case("transactions list", 0, "TransactionalId"),
    case("transactions describe --transactional-id nothing", 1, "could not be found"),
    case("transactions describe-producers --topic alpha --partition 0", 0, "ProducerId\tProducerEpoch"),
    case("transactions find-hanging --broker-id 1", 0, "Topic\tPartition\tProducerId"),
    case("topics --delete --topic alpha", 0),
)

CASES = TOPICS + RECORDS + GROUPS + SHARE_GROUPS + SETTINGS_OF_GROUPS + SETTINGS + LOGGERS + CLUSTER + PARTITIONS + TRANSACTIONS
