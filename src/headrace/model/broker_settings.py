"""The settings of a broker, with Kafka's names and defaults where Kafka has them, parsed for the broker to work with."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from headrace.declaring import dataclass
from headrace.model.access.principals import PrincipalError, parse_super_users
from headrace.model.compatibility_settings import COMPATIBILITY_SETTINGS
from headrace.model.delay.settings import DELAY_SETTINGS
from headrace.model.groups.coordinator_settings import GROUP_SETTINGS, OF_SHARE_GROUPS, SHARE_GROUP_SETTINGS
from headrace.model.kafka_settings import LISTENER_PREFIX
from headrace.model.observation.settings import OBSERVATION_SETTINGS
from headrace.model.security_settings import (
    ACCESS_SETTINGS,
    AUDIT_SETTINGS,
    OF_ONE_LISTENER,
    OF_ONE_LISTENER_AT_RUN_TIME,
    SASL_SETTINGS,
    TLS_SETTINGS,
    listener_of,
)
from headrace.model.settings import LONG_MAX, Kind, Setting, SettingError, SettingTable
from headrace.model.settings import dynamic as _dynamic
from headrace.model.settings import fixed as _fixed
from headrace.model.tier.settings import TIER_SETTINGS
from headrace.model.topic_settings import TOPIC_SETTINGS, LogConfig

_SERVER = (
    _fixed("node.id", Kind.INT, 1, "This broker's number; unique in its cluster.", minimum=0),
    _fixed("broker.rack", Kind.STRING, None, "The rack or zone of this broker; replicas are spread over racks."),
    _fixed(
        "listeners",
        Kind.STRING,
        "127.0.0.1:9092",
        "Where the broker listens: HOST:PORT, or several with names, NAME://HOST:PORT,NAME://HOST:PORT. Without a host it listens"
        " on all addresses and tells clients this machine's name.",
    ),
    _fixed(
        "advertised.listeners",
        Kind.STRING,
        None,
        "What clients and other brokers are told to use, in the form of `listeners`; a listener that is not named here is told as"
        " it is set there. Needed where a listener is on 0.0.0.0.",
    ),
    _fixed(
        "listener.security.protocol.map",
        Kind.STRING,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "The security protocol of each listener, NAME:PROTOCOL.",
    ),
    _fixed(
        "inter.broker.listener.name",
        Kind.STRING,
        None,
        "The listener that brokers use among themselves; PLAINTEXT, or the only one there is, if not set.",
    ),
    _fixed("log.dirs", Kind.STRING, "data", "The directory that holds the logs."),
    _fixed("headrace.memory", Kind.BOOLEAN, False, "Whether everything is kept in memory and no file is written."),
    _fixed(
        "headrace.metadata",
        Kind.STRING,
        "embedded",
        "Where the cluster's metadata lives: `embedded`, or etcd's endpoints as etcd://HOST:PORT,HOST:PORT.",
    ),
    _fixed("headrace.metadata.namespace", Kind.STRING, "headrace", "The prefix of this cluster's keys in etcd."),
    _fixed("headrace.metadata.user", Kind.STRING, None, "The user name for etcd."),
    _fixed("headrace.metadata.password", Kind.PASSWORD, None, "The password for etcd."),
    _fixed("headrace.metadata.ca", Kind.STRING, None, "The file with the authority that signed etcd's certificate."),
    _fixed("headrace.metadata.certificate", Kind.STRING, None, "The file with this broker's certificate for etcd."),
    _fixed("headrace.metadata.key", Kind.STRING, None, "The file with the key of this broker's certificate for etcd."),
    _fixed(
        "broker.session.timeout.ms", Kind.INT, 3000, "How long a broker may be silent before it is considered down.", minimum=2000
    ),
)
_LIMITS = (
    _fixed("socket.request.max.bytes", Kind.INT, 104_857_600, "The maximum size of a request.", minimum=1),
    _fixed("connections.max.idle.ms", Kind.LONG, 600_000, "How long an idle connection is kept open.", minimum=1000),
    _fixed(
        "telemetry.max.bytes",
        Kind.INT,
        1_048_576,
        "The largest push of client metrics, compressed and uncompressed.",
        minimum=1,
    ),
    _dynamic("max.connections", Kind.INT, 20_000, "The maximum number of connections.", minimum=1),
    _fixed(
        "headrace.connection.requests.max",
        Kind.INT,
        128,
        "The most requests of one connection under way at a time; beyond it the connection is not read.",
        minimum=1,
    ),
    _fixed(
        "headrace.connection.reply.bytes.max",
        Kind.LONG,
        67_108_864,
        "The most reply bytes that may wait for one connection; beyond it the connection is not read.",
        minimum=1024,
    ),
    _fixed(
        "headrace.connections.bytes.max",
        Kind.LONG,
        117_440_512,
        "The most bytes of requests and replies held for all connections together; whoever needs more waits or gets less.",
        minimum=1_048_576,
    ),
    _fixed(
        "queued.max.request.bytes",
        Kind.LONG,
        -1,
        "Of headrace.connections.bytes.max, the most bytes that requests take; -1 for three quarters of it.",
        minimum=-1,
    ),
    _fixed(
        "headrace.connection.bytes.per.second.min",
        Kind.INT,
        4096,
        "A connection that sends a request more slowly is closed; so is one that takes its reply more slowly while others wait "
        "for memory.",
        minimum=0,
    ),
    _fixed(
        "headrace.connection.slow.ms",
        Kind.INT,
        10_000,
        "How long a connection may be slower than headrace.connection.bytes.per.second.min.",
        minimum=100,
    ),
    _fixed("fetch.max.bytes", Kind.INT, 57_671_680, "The maximum size of a Fetch reply.", minimum=1024),
    _dynamic(
        "headrace.partitions.max",
        Kind.INT,
        20_000,
        "The most partitions a broker may hold, counted by replicas; topics that would exceed it are refused.",
        minimum=1,
    ),
)
_TOPICS = (
    _dynamic("auto.create.topics.enable", Kind.BOOLEAN, True, "Whether a topic is created when a client first uses it."),
    _dynamic("num.partitions", Kind.INT, 1, "The default number of partitions of a new topic.", minimum=1),
    _dynamic(
        "default.replication.factor",
        Kind.INT,
        None,
        "The default replication factor of a new topic; if unset, 3, or the number of brokers if there are fewer.",
        minimum=1,
    ),
    _dynamic("delete.topic.enable", Kind.BOOLEAN, True, "Whether topics may be deleted."),
)
_DEFAULTS_FOR_TOPICS = tuple(
    Setting(
        name=setting.synonyms[0],
        kind=setting.kind,
        default=setting.default,
        doc=f"The default of the topic setting {setting.name}. {setting.doc}",
        minimum=setting.minimum,
        maximum=setting.maximum,
        choices=setting.choices,
        dynamic=True,
        compatibility=setting.compatibility,
        internal=setting.internal,
    )
    for setting in TOPIC_SETTINGS
    if setting.synonyms
)
_DEFAULTS_IN_OTHER_UNITS = (
    _fixed("log.retention.minutes", Kind.INT, None, "log.retention.ms in minutes; that one goes before this one."),
    _fixed("log.retention.hours", Kind.INT, 168, "log.retention.ms in hours; those in smaller units go before this one."),
    _fixed("log.roll.hours", Kind.INT, 168, "log.roll.ms in hours; that one goes before this one.", minimum=1),
)
_HOUSEKEEPING = (
    _fixed("log.retention.check.interval.ms", Kind.LONG, 300_000, "How often retention looks for old segments.", minimum=1),
    _fixed("log.cleaner.enable", Kind.BOOLEAN, True, "Whether compaction runs."),
    _dynamic(
        "log.cleaner.backoff.ms", Kind.LONG, 15_000, "How long the cleaner sleeps when there is nothing to clean.", minimum=0
    ),
    _fixed("log.flush.offset.checkpoint.interval.ms", Kind.INT, 60_000, "How often recovery points are saved.", minimum=1),
    _dynamic(
        "log.dir.reserved.bytes",
        Kind.LONG,
        -1,
        "How much of the disk stays free: with less, writes are refused, and the broker is DEGRADED, until there is room again."
        " -1 stands for 1 % of the file system or 1 GiB, whichever is less.",
        minimum=-1,
    ),
    _dynamic(
        "headrace.disk.slow.ms",
        Kind.INT,
        500,
        "A flush that takes longer counts as slow; a broker with many slow flushes is DEGRADED.",
        minimum=1,
    ),
    _dynamic("producer.id.expiration.ms", Kind.INT, 86_400_000, "How long an idle producer is remembered.", minimum=1),
)
_TRANSACTIONS = (
    _fixed(
        "request.timeout.ms",
        Kind.INT,
        30_000,
        "How long a transaction coordinator waits for the replicas to confirm what it wrote, before it answers "
        "COORDINATOR_NOT_AVAILABLE.",
        minimum=1,
    ),
    _fixed("transaction.state.log.num.partitions", Kind.INT, 50, "Partitions of __transaction_state.", minimum=1),
    _fixed(
        "transaction.state.log.replication.factor",
        Kind.SHORT,
        3,
        "Replicas of __transaction_state, as far as there are brokers.",
        minimum=1,
    ),
    _fixed(
        "transaction.state.log.min.isr",
        Kind.INT,
        2,
        "In-sync replicas of __transaction_state, as far as there are brokers.",
        minimum=1,
    ),
    _fixed("transaction.state.log.segment.bytes", Kind.INT, 104_857_600, "Segment size of __transaction_state.", minimum=1),
    _fixed(
        "transaction.max.timeout.ms", Kind.INT, 900_000, "The longest transaction time-out a producer may ask for.", minimum=1
    ),
    _fixed(
        "transactional.id.expiration.ms", Kind.INT, 604_800_000, "How long an idle transactional id is remembered.", minimum=1
    ),
    _dynamic(
        "transaction.partition.verification.enable", Kind.BOOLEAN, True, "Whether a write is checked against its transaction."
    ),
    _fixed(
        "transaction.two.phase.commit.enable", Kind.BOOLEAN, False, "Whether producers may open transactions without a time-out."
    ),
)
_REPLICATION = (
    _fixed(
        "replica.lag.time.max.ms", Kind.LONG, 10_000, "How long a follower may lag before it leaves the in-sync set.", minimum=1
    ),
    _fixed("replica.fetch.wait.max.ms", Kind.INT, 500, "How long a follower's fetch waits for new records.", minimum=1),
    _fixed("replica.fetch.min.bytes", Kind.INT, 1, "How many bytes a follower's fetch waits for.", minimum=0),
    _fixed(
        "replica.fetch.max.bytes",
        Kind.INT,
        1_048_576,
        "How many bytes of one partition a follower asks for at a time.",
        minimum=0,
    ),
    _fixed("replica.fetch.response.max.bytes", Kind.INT, 10_485_760, "How many bytes a follower asks for at a time.", minimum=0),
    _fixed("replica.fetch.backoff.ms", Kind.INT, 200, "How long a follower waits after a failed fetch.", minimum=0),
    _fixed(
        "replica.selector.class",
        Kind.STRING,
        None,
        "`rack`, or Kafka's class of that kind, lets consumers read from a replica in their own rack.",
        choices=("rack", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
    ),
    _fixed("auto.leader.rebalance.enable", Kind.BOOLEAN, True, "Whether leadership returns to preferred replicas automatically."),
    _fixed("leader.imbalance.check.interval.seconds", Kind.LONG, 300, "How often leadership is balanced.", minimum=1),
    _fixed("controlled.shutdown.enable", Kind.BOOLEAN, True, "Whether a stopping broker hands over its leadership first."),
    _dynamic(
        "leader.replication.throttled.rate", Kind.LONG, LONG_MAX, "Bytes per second served to throttled replicas.", minimum=0
    ),
    _dynamic(
        "follower.replication.throttled.rate", Kind.LONG, LONG_MAX, "Bytes per second fetched by throttled replicas.", minimum=0
    ),
)

BROKER_SETTINGS = SettingTable(
    _SERVER
    + OBSERVATION_SETTINGS
    + TLS_SETTINGS
    + SASL_SETTINGS
    + ACCESS_SETTINGS
    + AUDIT_SETTINGS
    + DELAY_SETTINGS
    + TIER_SETTINGS
    + _LIMITS
    + _TOPICS
    + _DEFAULTS_FOR_TOPICS
    + _DEFAULTS_IN_OTHER_UNITS
    + _HOUSEKEEPING
    + GROUP_SETTINGS
    + SHARE_GROUP_SETTINGS
    + _TRANSACTIONS
    + _REPLICATION
    + COMPATIBILITY_SETTINGS
)

_MILLISECONDS = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000, "log.roll.hours": 3_600_000}


def setting_named(name: str) -> Setting:
    """The setting; one of a listener alone is `listener.name.NAME.` and the setting's name.  Raises SettingError."""
    if not name.startswith(LISTENER_PREFIX):
        return BROKER_SETTINGS[name]
    listener = listener_of(name)
    if not listener:
        raise SettingError(f"{name}: what can be set for one listener is {', '.join(OF_ONE_LISTENER)}")
    if name != name.lower():
        raise SettingError(f"{name}: a listener's name is written in small letters there: {name.lower()}")
    own = name[len(LISTENER_PREFIX) + len(listener) + 1 :]
    return replace(BROKER_SETTINGS[own], name=name, dynamic=own in OF_ONE_LISTENER_AT_RUN_TIME)


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A broker's settings: what was given, over the defaults."""

    # Texts as given in the file, the environment or by flags.
    given: Mapping[str, str] = field(default_factory=dict)
    # Texts set at run time through AlterConfigs; stronger than what was given.
    altered: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, text in self.given.items():
            setting_named(name).parse(text)
        for kind in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
            self._check_within("group.consumer.", kind)
        for kind in OF_SHARE_GROUPS:
            self._check_within("group.share.", kind)
        try:
            parse_super_users(self["super.users"])
        except PrincipalError as error:
            raise SettingError(f"super.users: {error}") from None

    def _check_within(self, prefix: str, kind: str) -> None:
        """What a group gets that sets nothing has to be within what a group may set."""
        name, least, most = prefix + kind, f"{prefix}min.{kind}", f"{prefix}max.{kind}"
        if self[least] > self[most]:
            raise SettingError(f"{least}={self[least]} is above {most}={self[most]}")
        if not self[least] <= self[name] <= self[most]:
            raise SettingError(f"{name}={self[name]} is not between {least}={self[least]} and {most}={self[most]}")

    def __getitem__(self, name: str) -> Any:
        setting = BROKER_SETTINGS[name]
        text = self.altered.get(name, self.given.get(name))
        return setting.default if text is None else setting.read(text)

    def text(self, name: str) -> str | None:
        return BROKER_SETTINGS[name].format(self[name])

    def of_listener(self, listener: str) -> "BrokerConfig":
        """As they hold at one listener: what is set for it alone stands in the place of what is set for all."""
        own = self.only_of_listener(listener)
        return BrokerConfig({**self.given, **own}, self.altered) if own else self

    @property
    def listeners_with_own(self) -> list[str]:
        """The listeners for which something was given alone."""
        return [listener for name in self.given if (listener := listener_of(name)) is not None]

    def only_of_listener(self, listener: str) -> dict[str, str]:
        """What is set for one listener alone, by the names that the settings have elsewhere.  Others of Kafka's that begin so, as
        `listener.name.NAME.scram-sha-512.sasl.jaas.config`, are stored and have no effect."""
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        texts = {**self.given, **self.altered}
        return {own: texts[prefix + own] for own in OF_ONE_LISTENER if prefix + own in texts}

    def with_altered(self, texts: Mapping[str, str]) -> "BrokerConfig":
        return BrokerConfig(self.given, dict(texts))

    def topic_defaults(self) -> LogConfig:
        """What a topic works with that sets nothing itself."""
        texts: dict[str, str] = {}
        for setting in TOPIC_SETTINGS:
            for synonym in setting.synonyms:
                given = self.altered.get(synonym, self.given.get(synonym))
                if given is not None:
                    texts[setting.name] = in_topic_units(synonym, given) or ""
                    break
        return replace(LogConfig().overridden(texts), producer_id_expiration_ms=self["producer.id.expiration.ms"])


def in_topic_units(synonym: str, text: str | None) -> str | None:
    """A broker setting's text as its topic setting has it: some are in hours or minutes, topics count milliseconds."""
    if text is None or synonym not in _MILLISECONDS:
        return text
    amount = BROKER_SETTINGS[synonym].read(text)
    assert isinstance(amount, int)
    return str(amount if amount < 0 else amount * _MILLISECONDS[synonym])
