"""What is kept in the metadata store: keys, values and the operations that change them.

Every value is a JSON object.  A key names one thing, so that two brokers that change different things never collide:

    brokers/<id>               a live broker, under its lease; the key's create revision is the broker epoch
    members/<id>               a broker that has ever joined, live or not; removed by UnregisterBroker
    admitted/<id>              the broker epoch that the controller last admitted; an unadmitted broker leads nothing
    controller                 who is controller, under its broker's lease
    controller-epoch           how often that changed
    topics/<name>              id, partition count and settings: a topic exists when this key does
    partitions/<topic id>/<n>  replicas, leader, in-sync set
    creations/<topic id>       a topic too large for one write is being written; else partitions without a topic are garbage
    configs/broker/<id>        settings of one broker, or of all under `default`
    configs/group/<id>         settings of one group; its id is percent-encoded
    quotas/<entity>            limits of a user, client id or topic
    acls/…, scram/…            who may do what, and what is kept of passwords: see access/entries.py
    producer-ids               the next block of producer ids
    unclean-elections          how many there were, and the last one
    cluster-id                 the cluster's name for itself
"""

from collections.abc import Mapping
from dataclasses import asdict, field, replace
from enum import Enum
from typing import Any, Final
from urllib.parse import quote, unquote
from uuid import UUID

import orjson

from headrace.declaring import dataclass
from headrace.model.access.principals import ANONYMOUS, Principal, parse_principal
from headrace.model.identity import NO_BROKER

CLUSTER_ID: Final = "cluster-id"
CONTROLLER: Final = "controller"
CONTROLLER_EPOCH: Final = "controller-epoch"
PRODUCER_IDS: Final = "producer-ids"
UNCLEAN_ELECTIONS: Final = "unclean-elections"
BROKERS: Final = "brokers/"
MEMBERS: Final = "members/"
ADMITTED: Final = "admitted/"
TOPICS: Final = "topics/"
PARTITIONS: Final = "partitions/"
CREATIONS: Final = "creations/"
BROKER_CONFIGS: Final = "configs/broker/"
GROUP_CONFIGS: Final = "configs/group/"
CLIENT_METRICS: Final = "configs/client-metrics/"
QUOTAS: Final = "quotas/"
DEFAULT_BROKER: Final = "default"


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key as the store holds it.  Revisions are the store's own count of writes."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """A key was written, or (item is None) removed, at a revision."""

    key: str
    item: KeyValue | None
    revision: int


@dataclass(frozen=True, slots=True)
class Compare:
    """Holds when the key was last written at this revision; 0 means that there is no such key."""

    key: str
    mod_revision: int


@dataclass(frozen=True, slots=True)
class CompareCreated:
    """Holds when the key was created at this revision, however often it was written since.  It fences by broker epoch."""

    key: str
    create_revision: int


@dataclass(frozen=True, slots=True)
class Exists:
    """Holds while there is such a key."""

    key: str


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    key: str


@dataclass(frozen=True, slots=True)
class DeletePrefix:
    """Remove every key that begins so, as one operation."""

    prefix: str


Condition = Compare | CompareCreated | Exists
Operation = Put | Delete | DeletePrefix


@dataclass(frozen=True, slots=True)
class ConditionalWrite:
    """All operations happen, or, when one condition does not hold, none."""

    conditions: tuple[Condition, ...]
    operations: tuple[Operation, ...]


def absent(key: str) -> Compare:
    return Compare(key, 0)


def topic_key(name: str) -> str:
    return TOPICS + name


def partition_key(topic_id: UUID, index: int) -> str:
    return f"{PARTITIONS}{topic_id}/{index}"


def partitions_prefix(topic_id: UUID) -> str:
    return f"{PARTITIONS}{topic_id}/"


def creation_key(topic_id: UUID) -> str:
    return f"{CREATIONS}{topic_id}"


def broker_key(broker_id: int) -> str:
    return f"{BROKERS}{broker_id}"


def member_key(broker_id: int) -> str:
    return f"{MEMBERS}{broker_id}"


def admitted_key(broker_id: int) -> str:
    return f"{ADMITTED}{broker_id}"


def broker_config_key(broker_id: int | None) -> str:
    """Settings of one broker, or of all of them (None)."""
    return BROKER_CONFIGS + (DEFAULT_BROKER if broker_id is None else str(broker_id))


def group_config_key(group_id: str) -> str:
    """Settings of one group.  A group id may hold any character; encoded, it is one part of the key, and never empty."""
    return GROUP_CONFIGS + quote(group_id, safe="")


def group_of_config_key(key: str) -> str:
    return unquote(key[len(GROUP_CONFIGS) :])


def client_metrics_key(name: str) -> str:
    """A subscription to clients' metrics, by its name."""
    return CLIENT_METRICS + quote(name, safe="")


def subscription_of_key(key: str) -> str:
    return unquote(key[len(CLIENT_METRICS) :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a broker listens, as clients are told."""

    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class Memory(Enum):
    """What a broker that starts still has of what it had when it last ran."""

    ALL = "all"  # it was shut down in order
    FLUSHED = "flushed"  # it was killed
    NOTHING = "nothing"  # its disk is new, or it has none


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A live broker.  `epoch` comes from the store when the key is created and is not part of the value."""

    broker_id: int
    epoch: int = -1
    incarnation: str = ""
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    # By which of their listeners it comes to other brokers, and as who.  Brokers that did not tell yet had no names either.
    inter_broker_listener: str | None = None
    principal: Principal = ANONYMOUS
    rack: str | None = None
    shutting_down: bool = False  # gives its leaderships away and gets no new ones
    memory: Memory = Memory.ALL
    degraded: tuple[str, ...] = ()  # reasons, for people

    def endpoint(self, listener: str) -> Endpoint | None:
        return self.endpoints.get(listener)

    def to_value(self) -> bytes:
        return orjson.dumps(
            {
                "incarnation": self.incarnation,
                "endpoints": {
                    name: {"host": e.host, "port": e.port, "security_protocol": e.security_protocol}
                    for name, e in self.endpoints.items()
                },
                "inter_broker_listener": self.inter_broker_listener,
                "principal": str(self.principal),
                "rack": self.rack,
                "shutting_down": self.shutting_down,
                "memory": self.memory.value,
                "degraded": list(self.degraded),
            }
        )

    @classmethod
    def from_value(cls, broker_id: int, epoch: int, value: bytes) -> "BrokerRegistration":
        data = orjson.loads(value)
        return cls(
            broker_id=broker_id,
            epoch=epoch,
            incarnation=data["incarnation"],
            endpoints={name: Endpoint(**e) for name, e in data["endpoints"].items()},
            inter_broker_listener=data.get("inter_broker_listener"),
            principal=parse_principal(data["principal"]) if "principal" in data else ANONYMOUS,
            rack=data["rack"],
            shutting_down=data["shutting_down"],
            memory=Memory(data["memory"]),
            degraded=tuple(data["degraded"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """What `topics/<name>` holds."""

    topic_id: UUID
    partition_count: int
    configs: Mapping[str, str] = field(default_factory=dict)

    def to_value(self) -> bytes:
        return orjson.dumps({"id": str(self.topic_id), "partition_count": self.partition_count, "configs": dict(self.configs)})

    @classmethod
    def from_value(cls, value: bytes) -> "TopicEntry":
        data = orjson.loads(value)
        return cls(topic_id=UUID(data["id"]), partition_count=data["partition_count"], configs=data["configs"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Who holds a partition and who leads it.

    Always: isr and elr are disjoint subsets of replicas; the leader is in the isr or NO_BROKER; adding and removing are disjoint
    subsets of replicas.  `partition_epoch` grows with every change, `leader_epoch` with every change of leader.
    """

    replicas: tuple[int, ...]  # in order of preference; adding ones included
    leader: int = NO_BROKER
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()  # left the in-sync set below min.insync.replicas, yet hold everything committed (KIP-966)
    last_known_leader: int = NO_BROKER  # with isr and elr empty, the one that led last
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False  # elected uncleanly; cleared by the leader
    arrived_in: int = -1  # the broker epoch of a leader that was elected as it arrived
    partition_epoch: int = 0

    def changed(self, **fields: Any) -> "PartitionState":
        """A successor, with the next partition epoch."""
        return replace(self, partition_epoch=self.partition_epoch + 1, **fields)

    def to_value(self) -> bytes:
        return orjson.dumps(
            {
                "replicas": self.replicas,
                "leader": self.leader,
                "leader_epoch": self.leader_epoch,
                "isr": self.isr,
                "elr": self.elr,
                "last_known_leader": self.last_known_leader,
                "adding": self.adding,
                "removing": self.removing,
                "recovering": self.recovering,
                "arrived_in": self.arrived_in,
                "partition_epoch": self.partition_epoch,
            }
        )

    @classmethod
    def from_value(cls, value: bytes) -> "PartitionState":
        data = orjson.loads(value)
        return cls(
            replicas=tuple(data["replicas"]),
            leader=data["leader"],
            leader_epoch=data["leader_epoch"],
            isr=tuple(data["isr"]),
            elr=tuple(data["elr"]),
            last_known_leader=data["last_known_leader"],
            adding=tuple(data["adding"]),
            removing=tuple(data["removing"]),
            recovering=data["recovering"],
            arrived_in=data.get("arrived_in", -1),
            partition_epoch=data["partition_epoch"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElection:
    """Somebody leads who may lack what was committed."""

    topic: str
    partition: int
    leader: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElections:
    """How many there have been in this cluster's life, and the last of them."""

    count: int = 0
    last: UncleanElection | None = None

    def to_value(self) -> bytes:
        return orjson.dumps(asdict(self))

    @classmethod
    def from_value(cls, value: bytes) -> "UncleanElections":
        data = orjson.loads(value)
        return cls(count=data["count"], last=None if data["last"] is None else UncleanElection(**data["last"]))


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return orjson.dumps(dict(configs))


def decode_configs(value: bytes) -> dict[str, str]:
    configs: dict[str, str] = orjson.loads(value)
    return configs


def encode_number(number: int) -> bytes:
    return orjson.dumps({"next": number})


def decode_number(value: bytes) -> int:
    number: int = orjson.loads(value)["next"]
    return number
