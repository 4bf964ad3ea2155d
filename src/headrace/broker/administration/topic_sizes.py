"""How much a topic holds, each partition counted once, wherever it lies.

What has a replica here is measured here.  For the others their leaders are asked, from time to time and only while somebody wants
to know: a topic with a storage quota may be over it by what is written elsewhere between two questions.
"""

from collections import defaultdict
from collections.abc import Callable

from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.supervision.supervision import Spawn
from headrace.controller.image import CurrentImage, Topic
from headrace.model.identity import NO_BROKER, TopicPartition
from headrace.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResponse

ASK_EVERY_S = 1.0
ANSWER_S_MAX = 5.0
DESCRIBE_LOG_DIRS_VERSION = 4
PURPOSE = "sizes"


class TopicSizes:
    """Sizes by topic; asks no more than once in a while for each."""

    def __init__(
        self, replicas: Replicas, image: CurrentImage, peers: Peers, spawn: Spawn, now: Callable[[], float], broker_id: int
    ) -> None:
        """`now` is the event loop's time."""
        self._replicas = replicas
        self._image = image
        self._peers = peers
        self._spawn = spawn
        self._now = now
        self._broker_id = broker_id
        self._elsewhere: dict[TopicPartition, int] = {}
        self._asked_at: dict[str, float] = {}

    def size_of(self, name: str) -> int:
        """In bytes, as far as it is known here."""
        here = {partition.identity.partition: partition.log.size_bytes for partition in self._replicas.of_topic(name)}
        size = sum(here.values())
        topic = self._image().topics.get(name)
        if topic is None or len(here) == topic.partition_count:
            return size
        self._ask_soon(name)
        missing = (TopicPartition(name, index) for index in range(topic.partition_count) if index not in here)
        return size + sum(self._elsewhere.get(identity, 0) for identity in missing)

    def _ask_soon(self, name: str) -> None:
        now = self._now()
        if name not in self._asked_at or now - self._asked_at[name] >= ASK_EVERY_S:
            self._asked_at[name] = now
            self._spawn(self._ask(name))

    async def _ask(self, name: str) -> None:
        topic = self._image().topics.get(name)
        if topic is None:
            return
        for leader, indexes in self._led_elsewhere(topic).items():
            wanted = DescribableLogDirTopic(topic=name, partitions=tuple(indexes))
            try:
                response: DescribeLogDirsResponse = await self._peers.call(
                    leader,
                    DescribeLogDirsRequest(topics=(wanted,)),
                    DESCRIBE_LOG_DIRS_VERSION,
                    timeout=ANSWER_S_MAX,
                    purpose=PURPOSE,
                )
            except PeerUnreachable:
                continue  # what was known of its partitions stays known
            if name in self._image().topics:
                self._take(response)

    def _led_elsewhere(self, topic: Topic) -> dict[int, list[int]]:
        by_leader: dict[int, list[int]] = defaultdict(list)
        for index, state in enumerate(topic.partitions):
            if self._broker_id not in state.replicas and state.leader != NO_BROKER:
                by_leader[state.leader].append(index)
        return by_leader

    def _take(self, response: DescribeLogDirsResponse) -> None:
        for directory in response.results:
            for topic in directory.topics:
                for partition in topic.partitions:
                    self._elsewhere[TopicPartition(topic.name, partition.partition_index)] = partition.partition_size

    def forget_all(self) -> None:
        """Topics may have been deleted, or made again under the same name."""
        self._asked_at.clear()
        self._elsewhere.clear()

    def forget(self, name: str) -> None:
        """A topic was deleted."""
        self._asked_at.pop(name, None)
        for identity in [identity for identity in self._elsewhere if identity.topic == name]:
            del self._elsewhere[identity]
