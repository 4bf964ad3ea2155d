"""What happens beside the main story, each on a topic of its own: topics that forget, topics that die, topics that may lose."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.identity import TopicPartition
from simulation.clients.client import ClusterClient
from simulation.clients.consuming import Consumer
from simulation.clients.producing import CarelessProducer, Producer
from simulation.clients.rebirth import IncarnateReader, IncarnateWriter, Recreator, in_this_life
from simulation.clients.sharing import ShareMember
from simulation.clients.working import Worker
from simulation.operators.topics import TopicSpec

PAUSE_S = (0.2, 0.9)
OFTEN_S = (0.05, 0.3)
# A segment of a side topic holds a handful of batches.
SEGMENT_BYTES = "700"
RETENTION_BYTES = "2000"
KEYS = 5
REBORN = "reborn"
QUEUE = "queue"


Make = Callable[[ClusterClient], Worker]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTopic:
    """A topic, and the clients that work on it."""

    spec: TopicSpec
    writers: Mapping[str, Make]
    readers: Mapping[str, Make] = field(default_factory=dict)
    # Groups whose offsets are watched.
    groups: Sequence[str] = ()

    @property
    def is_compacted(self) -> bool:
        return self.spec.configs.get("cleanup.policy") == "compact"

    @property
    def is_lossy(self) -> bool:
        return self.spec.configs.get("unclean.leader.election.enable") == "true"

    def named(self, partition: TopicPartition, client: ClusterClient) -> TopicPartition:
        """How the facts name a partition, when the topic is as the client has last seen it."""
        if self.spec.name != REBORN:
            return partition
        return in_this_life(partition, client.topic_ids[REBORN])


def window(flush: str) -> SideTopic:
    """Old records go; consumers that are too slow are told so, and only those."""
    configs = {"retention.bytes": RETENTION_BYTES, "internal.segment.bytes": SEGMENT_BYTES, "min.insync.replicas": "2"}
    return SideTopic(
        spec=TopicSpec(name="window", configs=configs | {"headrace.flush": flush}),
        writers={"window-writer": lambda client: Producer(client, pause_s=OFTEN_S, in_flight_max=2)},
        readers={"window-reader": lambda client: Consumer(client, isolated=False, keeps_all=False)},
        groups=("group-window-reader",),
    )


def table(flush: str) -> SideTopic:
    """Superseded records go; the last one of each key stays."""
    configs = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": SEGMENT_BYTES,
        "min.cleanable.dirty.ratio": "0.01",
        "min.insync.replicas": "2",
    }
    return SideTopic(
        spec=TopicSpec(name="table", configs=configs | {"headrace.flush": flush}),
        writers={"table-writer": lambda client: Producer(client, pause_s=OFTEN_S, keys=KEYS)},
        readers={"table-reader": lambda client: Consumer(client, isolated=False)},
        groups=("group-table-reader",),
    )


def reborn(flush: str) -> SideTopic:
    """A topic is deleted and made again; nothing of the old one is in the new one."""
    configs = {"min.insync.replicas": "2", "internal.segment.bytes": SEGMENT_BYTES, "headrace.flush": flush}
    spec = TopicSpec(name=REBORN, partition_count=2, configs=configs)
    return SideTopic(
        spec=spec,
        writers={
            "recreator": lambda client: Recreator(client, spec),
            "reborn-writer": lambda client: IncarnateWriter(client, REBORN, pause_s=OFTEN_S),
        },
        readers={"reborn-reader": lambda client: IncarnateReader(client, REBORN)},
    )


def risky(flush: str) -> SideTopic:
    """Whoever is there may lead, and what others had is lost; but in the end all agree."""
    configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", "headrace.flush": "os"}
    return SideTopic(
        spec=TopicSpec(name="risky", factor=2, configs=configs),
        writers={"risky-writer": lambda client: CarelessProducer(client, pause_s=OFTEN_S)},
    )


def queue(flush: str) -> SideTopic:
    """Any number of members work on a partition; what they accepted is done, and what they did not is not."""
    spec = TopicSpec(name=QUEUE, partition_count=2, configs={"min.insync.replicas": "2", "headrace.flush": flush})
    return SideTopic(
        spec=spec,
        writers={"queue-writer": lambda client: Producer(client, pause_s=OFTEN_S)},
        readers={f"queue-{name}": lambda client: ShareMember(client, "group-queue") for name in ("ann", "bob", "eve")},
    )


SOMETIMES: dict[str, Callable[[str], SideTopic]] = {"window": window, "table": table, REBORN: reborn, "risky": risky}
SIDE_TOPICS = SOMETIMES | {QUEUE: queue}
