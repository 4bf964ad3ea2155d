"""What a group coordinator knows of the cluster's topics: names, ids and partition counts, as of one version of the metadata."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from uuid import UUID

from headrace.declaring import dataclass


@dataclass(frozen=True, slots=True)
class CatalogTopic:
    """One topic as assignors see it."""

    name: str
    topic_id: UUID
    partition_count: int
    # For each partition the racks of its replicas, sorted; empty where brokers name no rack.
    racks: tuple[tuple[str, ...], ...] = ()


class TopicCatalog:
    """All topics at one version of the cluster's metadata.  Never changes: news come as a new catalog."""

    def __init__(self, topics: Iterable[CatalogTopic] = (), *, version: int = 0, version_with_new_topics: int = 0) -> None:
        self._by_name: Mapping[str, CatalogTopic] = {topic.name: topic for topic in topics}
        self._by_id: Mapping[UUID, CatalogTopic] = {topic.topic_id: topic for topic in self._by_name.values()}
        self.version = version
        # The last version that brought a topic: patterns resolved at an older one may match more today.
        self.version_with_new_topics = version_with_new_topics
        self._hashes: dict[str, int] = {}

    def named(self, name: str) -> CatalogTopic | None:
        return self._by_name.get(name)

    def identified(self, topic_id: UUID) -> CatalogTopic | None:
        return self._by_id.get(topic_id)

    def names(self) -> Iterable[str]:
        return self._by_name.keys()

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        """The ids of those topics that exist."""
        return frozenset(topic.topic_id for name in names if (topic := self._by_name.get(name)) is not None)

    def updated(self, changed: Mapping[str, CatalogTopic | None], *, version: int) -> "TopicCatalog":
        """The catalog at a later version, in which these topics are new, different, or (None) gone."""
        by_name = {**self._by_name, **changed}
        brings_topics = any(topic is not None and self._by_id.get(topic.topic_id) is None for topic in changed.values())
        newer = TopicCatalog(
            (topic for topic in by_name.values() if topic is not None),
            version=version,
            version_with_new_topics=version if brings_topics else self.version_with_new_topics,
        )
        newer._hashes = {name: number for name, number in self._hashes.items() if name not in changed}
        return newer

    def subscription_hash(self, names: Iterable[str]) -> int:
        """A number that changes when one of these topics changes in a way that matters to its readers; 0 without topics.

        It is kept in the group's log, so it depends on nothing but the topics.
        """
        digests = [(name, self._topic_hash(name)) for name in sorted(names)]
        if not digests:
            return 0
        return _hash64(b"".join(digest.to_bytes(8, "big", signed=True) for _, digest in digests))

    def _topic_hash(self, name: str) -> int:
        if name not in self._hashes:
            self._hashes[name] = _hash_of(self._by_name.get(name))
        return self._hashes[name]


def _hash_of(topic: CatalogTopic | None) -> int:
    if topic is None:
        return 0
    racks = repr(topic.racks).encode()
    return _hash64(b"\0".join((topic.topic_id.bytes, topic.name.encode(), str(topic.partition_count).encode(), racks)))


def _hash64(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)
