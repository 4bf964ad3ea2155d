"""Administration in plain Python values: topics, settings, groups, offsets, lag.

Every call answers or raises within `timeout`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

from confluent_kafka import OFFSET_END, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from headrace.client.admin.descriptions import (
    ClusterDescription,
    GroupDescription,
    GroupListing,
    Node,
    Setting,
    TopicDescription,
    group_listing_of,
    group_of,
    setting_of,
    topic_of,
)
from headrace.client.admin.group_offsets import committed_notes, committed_offsets
from headrace.client.arguments import (
    Duration,
    choice,
    label,
    mapping,
    merged,
    offsets_by_partition,
    seconds,
    several,
    timestamp_ms,
    topic_name,
    topic_partition,
    whole_number,
)
from headrace.client.contact import FirstContact
from headrace.client.errors import (
    BrokerError,
    Closed,
    GroupNotFound,
    HeadraceError,
    InvalidArgument,
    TopicExists,
    TopicNotFound,
    translate,
)
from headrace.client.librdkafka import AdminClient, new_admin
from headrace.client.security.connecting import way_to
from headrace.client.security.options import SecurityOptions, check_names
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.model.names import AUDIT, HELD_IN, INTERNAL_TOPICS

T = TypeVar("T")
At = str | int | datetime
ISOLATION_LEVELS = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}


class Admin:
    """Asks and changes what a cluster holds.

    A broker that does not answer within `timeout` is a BrokerTimeout with its address; one that refuses is a BrokerError:
    TopicNotFound, TopicExists and GroupNotFound are the usual ones.

    Args:
        bootstrap: `host:port`, or several; else `HEADRACE_BOOTSTRAP` from the environment, else 127.0.0.1:9092.
        timeout: How long each call may take, as seconds or a timedelta.
        connect_timeout: How long the first call looks for a broker that cannot be reached.
        client_id: What brokers call it in their logs and quotas.
        librdkafka: Any settings of librdkafka by their own names; they count more than all others.
        security: How to get in: a `profile`, or `username`, `password_file`, `ca_file` and the other SecurityOptions.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | None = None,
        *,
        timeout: Duration = 30.0,
        connect_timeout: Duration = 3.0,
        client_id: str = "headrace",
        librdkafka: Mapping[str, Any] | None = None,
        **security: Unpack[SecurityOptions],
    ) -> None:
        check_names(security, "Admin")
        self.bootstrap, properties = way_to(bootstrap, security, librdkafka)
        self._timeout = seconds("timeout", timeout, at_least=0.1)
        self._config = merged({"bootstrap.servers": self.bootstrap, "client.id": label("client_id", client_id)}, properties)
        patience = min(self._timeout, seconds("connect_timeout", connect_timeout, at_least=0.1))
        self._contact = FirstContact(self._config, patience, self._timeout)
        self._last_error: str | None = None
        self._client: AdminClient | None = new_admin({"error_cb": self._note_error, **self._config})

    # Topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = 1,
        replication: int | None = None,
        settings: Mapping[str, object] | None = None,
        exist_ok: bool = False,
    ) -> None:
        """Make a topic.

        Args:
            name: 1 to 249 letters, digits, `.`, `_` and `-`.
            partitions: How many; None leaves it to the cluster.
            replication: Copies of each; what the cluster thinks best, unless given.
            settings: Its settings by name, such as `{"retention.ms": 86_400_000}`.
            exist_ok: A topic that is there already is left as it is; else it is a TopicExists.
        """
        topic_name("name", name)
        count = -1 if partitions is None else whole_number("partitions", partitions, at_least=1)
        replicas = -1 if replication is None else whole_number("replication", replication, at_least=1)
        new = NewTopic(name, num_partitions=count, replication_factor=replicas, config=_texts(settings))
        try:
            self._each(lambda client: client.create_topics([new], **self._limits()), f"create topic '{name}'")
        except TopicExists:
            if not exist_ok:
                raise

    def delete_topic(self, name: str, *, missing_ok: bool = False) -> None:
        """Delete a topic with all its records.  One that does not exist is a TopicNotFound, unless `missing_ok`."""
        topic_name("name", name)
        try:
            self._each(lambda client: client.delete_topics([name], **self._limits()), f"delete topic '{name}'")
        except TopicNotFound:
            if not missing_ok:
                raise
        except BrokerError as error:
            if name not in INTERNAL_TOPICS or error.code != ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise
            # librdkafka asks in a version of the request whose answer has no room for the broker's sentence.
            why = "what was done stays written" if name == AUDIT else f"deleting it would forget every {HELD_IN[name]}"
            message = f"could not delete topic '{name}': it is internal; {why}"
            raise BrokerError(message, code=error.code, name=error.name) from None

    def topics(self, names: Iterable[str] | None = None, *, internal: bool = False) -> dict[str, TopicDescription]:
        """All topics by name; those that Kafka keeps for itself only when asked.  Of the `names` given, those there are."""
        if names is None:
            wanted = [name for name in self.topic_names() if internal or not name.startswith("__")]
        else:
            wanted = sorted(topic_name("names", name) for name in several("names", names, "names of topics"))
        return {topic.name: topic for topic in self._described(wanted, missing_ok=True)}

    def topic_names(self) -> list[str]:
        """The names of all topics, those that Kafka keeps for itself among them."""
        return sorted(self._partitions_by_topic("list topics"))

    def topic(self, name: str) -> TopicDescription:
        """A topic with its partitions; TopicNotFound when it does not exist."""
        topic_name("name", name)
        return self._described([name])[0]

    def _described(self, names: list[str], *, missing_ok: bool = False) -> list[TopicDescription]:
        if not names:
            return []
        action = f"describe topic '{', '.join(names)}'"
        futures = self._call(action, lambda client: client.describe_topics(TopicCollection(names), request_timeout=self._timeout))
        found = []
        for name in sorted(futures):
            try:
                found.append(topic_of(self._call(action, partial(self._answer, futures[name]))))
            except TopicNotFound:
                if not missing_ok:
                    raise
        return found

    def _partitions_by_topic(self, action: str) -> dict[str, list[int]]:
        metadata = self._call(action, lambda client: client.list_topics(timeout=self._timeout))
        return {name: sorted(topic.partitions) for name, topic in sorted(metadata.topics.items())}

    def add_partitions(self, topic: str, total: int) -> None:
        """Raise the number of partitions to `total`.  Keys move: the partition of a key depends on the number."""
        topic_name("topic", topic)
        new = NewPartitions(topic, whole_number("total", total, at_least=1))
        self._each(lambda client: client.create_partitions([new], **self._limits()), f"add partitions to topic '{topic}'")

    def delete_records(self, topic: str, before: Mapping[int, int | None]) -> dict[int, int]:
        """Delete what lies below an offset of each partition, or all there is when that is None; answers the new first
        offsets."""
        topic_name("topic", topic)
        wanted = [
            ClientPartition(
                topic,
                whole_number("before", partition, at_least=0),
                OFFSET_END if offset is None else whole_number("before", offset, at_least=0),
            )
            for partition, offset in mapping("before", before, "partition to offset").items()
        ]
        action = f"delete records of topic '{topic}' before {dict(before)}"
        answers = self._each(lambda client: client.delete_records(wanted, **self._limits()), action)
        return {position.partition: answer.low_watermark for position, answer in answers.items()}

    # Settings

    def settings(self, topic: str) -> dict[str, Setting]:
        """Every setting of a topic, with where its value comes from."""
        resource = ConfigResource(ResourceType.TOPIC, topic_name("topic", topic))
        answers = self._each(
            lambda client: client.describe_configs([resource], request_timeout=self._timeout),
            f"read the settings of topic '{topic}'",
        )
        entries = next(iter(answers.values()))
        return {name: setting_of(entry) for name, entry in sorted(entries.items())}

    def change_settings(self, topic: str, settings: Mapping[str, object]) -> None:
        """Change some settings of a topic and leave the others; None takes a setting back to its default."""
        topic_name("topic", topic)
        entries = [
            ConfigEntry(
                name,
                "" if value is None else _text(value),
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in mapping("settings", settings, "name to value").items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self._each(
            lambda client: client.incremental_alter_configs([resource], request_timeout=self._timeout),
            f"change the settings of topic '{topic}'",
        )

    # Offsets

    def offsets(self, topic: str, at: At = "latest") -> dict[int, int]:
        """The offset in each partition of a topic `at` "earliest", "latest" or a moment; after the last record, the end."""
        _offset_spec(at)
        places = [TopicPartition(topic, partition.index) for partition in self.topic(topic).partitions]
        found = self.find_offsets(dict.fromkeys(places, at))
        beyond = [place for place, offset in found.items() if offset is None]
        found |= self.find_offsets(dict.fromkeys(beyond, "latest"))
        return {place.partition: offset for place, offset in found.items() if offset is not None}

    def find_offsets(
        self, at: Mapping[TopicPartition, At], *, isolation: Literal["read_committed", "read_uncommitted"] = "read_uncommitted"
    ) -> dict[TopicPartition, int | None]:
        """The offset in each partition `at` "earliest", "latest" or a moment; None where every record is older than that.  For
        who reads only what is committed, "latest" is the last stable offset."""
        choice("isolation", isolation, ISOLATION_LEVELS)
        if not mapping("at", at, "TopicPartition(topic, partition) to a place in it"):
            return {}
        request = {ClientPartition(*topic_partition("at", each)): _offset_spec(where) for each, where in at.items()}
        answers = self._each(
            lambda client: client.list_offsets(
                request, isolation_level=ISOLATION_LEVELS[isolation], request_timeout=self._timeout
            ),
            f"list the offsets of {_listed(at)}",
        )
        return {
            TopicPartition(each.topic, each.partition): answer.offset if answer.offset >= 0 else None
            for each, answer in answers.items()
        }

    # Groups

    def groups(self) -> list[str]:
        """The names of all consumer groups."""
        return [each.name for each in self.group_listings()]

    def group_listings(self) -> list[GroupListing]:
        """All consumer groups with their states, by name."""
        answer = self._call(
            "list groups", lambda client: client.list_consumer_groups(request_timeout=self._timeout).result(self._timeout + 1)
        )
        if answer.errors:
            raise self._translated(answer.errors[0], "list groups")
        return [group_listing_of(each) for each in sorted(answer.valid, key=lambda each: str(each.group_id))]

    def group(self, name: str) -> GroupDescription:
        """A group's state and members; GroupNotFound when it does not exist."""
        _group_name(name)
        answers = self._each(
            lambda client: client.describe_consumer_groups([name], request_timeout=self._timeout), f"describe group '{name}'"
        )
        found = group_of(answers[name])
        if found.state == "dead":  # what the protocol says of a group that is not there
            raise _no_such_group(name)
        return found

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """What a group has committed, in the topics there are."""
        _group_name(group)
        action = f"read the offsets of group '{group}'"
        there = self._partitions_by_topic(action).items()
        places = [TopicPartition(name, partition) for name, partitions in there for partition in partitions]
        found: dict[TopicPartition, int] = self._call(
            action, lambda _client: committed_offsets(self._config, group, places, self._timeout)
        )
        return found

    def committed_notes(self, group: str, topic: str) -> dict[int, tuple[int, str | None]]:
        """What a group has committed in one topic, by partition, with the metadata that it left beside each offset."""
        places = [TopicPartition(topic, each.index) for each in self.topic(topic).partitions]
        action = f"read the offsets of group '{_group_name(group)}'"
        found = self._call(action, lambda _client: committed_notes(self._config, group, places, self._timeout))
        return {place.partition: committed for place, committed in found.items()}

    def lag(self, group: str) -> dict[TopicPartition, int]:
        """How many offsets a group has yet to read in each partition of its topics; where it has committed nothing, all
        there are."""
        committed = self.committed(group)
        if not committed and group not in self.groups():
            raise _no_such_group(group)
        members = self.group(group).members
        topics = {place.topic for place in committed} | {place.topic for member in members for place in member.partitions}
        described = self._described(sorted(topics))
        places = [TopicPartition(topic.name, each.index) for topic in described for each in topic.partitions]
        ends = self.find_offsets(dict.fromkeys(places, "latest"))
        unread = [place for place in places if place not in committed]
        begins = {**self.find_offsets(dict.fromkeys(unread, "earliest")), **committed}
        return {place: max(0, (ends[place] or 0) - (begins[place] or 0)) for place in sorted(places)}

    def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit for a group that has no members just now."""
        wanted = offsets_by_partition("offsets", offsets)
        positions = [ClientPartition(each.topic, each.partition, offset) for each, offset in wanted.items()]
        request = [ConsumerGroupTopicPartitions(_group_name(group), positions)]
        answers = self._each(
            lambda client: client.alter_consumer_group_offsets(request, request_timeout=self._timeout),
            f"set the offsets of group '{group}'",
        )
        for each in answers[group].topic_partitions or []:
            if each.error is not None:
                raise self._translated(each.error, f"set the offsets of group '{group}'")

    def reset_offsets(self, group: str, topic: str, to: At) -> dict[int, int]:
        """Move a group that has no members to "earliest", "latest" or a moment in one topic; answers the offsets."""
        offsets = self.offsets(topic, to)
        self.set_offsets(group, {TopicPartition(topic, partition): offset for partition, offset in offsets.items()})
        return offsets

    def delete_group(self, name: str, *, missing_ok: bool = False) -> None:
        """Delete a group that has no members, and its offsets.  One that does not exist is a GroupNotFound, unless
        `missing_ok`."""
        try:
            self._each(
                lambda client: client.delete_consumer_groups([_group_name(name)], request_timeout=self._timeout),
                f"delete group '{name}'",
            )
        except GroupNotFound:
            if not missing_ok:
                raise

    # The cluster

    def cluster(self) -> ClusterDescription:
        """The cluster's id, its brokers and its controller."""
        answer = self._call(
            "describe the cluster",
            lambda client: client.describe_cluster(request_timeout=self._timeout).result(self._timeout + 1),
        )
        nodes = [Node(node.id, node.host, node.port, node.rack) for node in sorted(answer.nodes, key=lambda node: node.id)]
        return ClusterDescription(answer.cluster_id, answer.controller.id if answer.controller else None, nodes)

    def close(self) -> None:
        """Close connections and threads once calls in other threads have ended.  Calling it again has no effect."""
        client, self._client = self._client, None
        if client is not None and hasattr(client, "__exit__"):
            # Let go of by its last reference it may linger: an error that somebody keeps refers to it, too.
            client.__exit__(None, None, None)

    def __enter__(self) -> Self:
        self._open_client()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _open_client(self) -> AdminClient:
        if self._client is None:
            raise Closed("this admin is closed; open a new one")
        return self._client

    def _limits(self) -> dict[str, float]:
        return {"request_timeout": self._timeout, "operation_timeout": self._timeout}

    def _call(self, action: str, call: Callable[[AdminClient], Any]) -> Any:
        client = self._open_client()
        self._contact.require()
        try:
            return call(client)
        except KafkaException as error:
            raise self._translated(error, action) from None
        except (ValueError, TypeError) as error:
            raise InvalidArgument(f"could not {action}: {error}") from None
        except RuntimeError:
            self._open_client()  # closed by another thread: librdkafka's client has gone
            raise

    def _each(self, call: Callable[[AdminClient], Mapping[Any, Future[T]]], action: str) -> dict[Any, T]:
        """The answers to one request; the first error among them is raised."""
        futures: Mapping[Any, Future[T]] = self._call(action, call)
        return {subject: self._call(action, partial(self._answer, future)) for subject, future in futures.items()}

    def _answer(self, future: Future[T], _client: AdminClient) -> T:
        # librdkafka ends every request within its own time-out; one second more is so that its error wins.
        return future.result(self._timeout + 1)

    def _translated(self, error: KafkaException | KafkaError, action: str) -> HeadraceError:
        if self._client is not None:
            self._client.poll(0)  # lets librdkafka say what the trouble was
        return translate(error.args[0] if isinstance(error, KafkaException) else error, action, self.bootstrap, self._last_error)

    def _note_error(self, error: KafkaError) -> None:
        if error.name() != "_ALL_BROKERS_DOWN" or self._last_error is None:
            self._last_error = error.str()


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return f"topic '{', '.join(sorted({each.topic for each in partitions}))}'"


def _no_such_group(name: str) -> GroupNotFound:
    return GroupNotFound(f"group '{name}' does not exist", code=69, name="GROUP_ID_NOT_FOUND")


def _group_name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"group={name!r} is not accepted; accepted: the name of a group")
    return name


def _offset_spec(at: At) -> OffsetSpec:
    if at == "earliest":
        return OffsetSpec.earliest()
    if at == "latest":
        return OffsetSpec.latest()
    if isinstance(at, str):
        raise InvalidArgument(
            f"at={at!r} is not accepted; accepted: 'earliest', 'latest', a datetime, or milliseconds since 1970"
        )
    return OffsetSpec.for_timestamp(timestamp_ms("at", at))


def _texts(settings: Mapping[str, object] | None) -> dict[str, str]:
    return {name: _text(value) for name, value in mapping("settings", settings or {}, "name to value").items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
