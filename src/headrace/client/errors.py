"""What can go wrong for someone who uses the SDK, one class per thing they may want to tell apart.

Every message is one sentence that names the argument, the topic or the address concerned.  Each class also derives from the
built-in exception it resembles (ValueError, TimeoutError, …), so that code which knows nothing of Headrace handles it sensibly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.model.errors import RETRIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import KafkaError, KafkaException, Message

    from headrace.client.records.record import Delivery, Record


class HeadraceError(Exception):
    """The root: catch this to catch everything the SDK raises on its own account."""


class InvalidArgument(HeadraceError, ValueError):
    """An argument has a value that is not accepted; the message names both."""


class WrongState(HeadraceError, RuntimeError):
    """The call does not fit what was done before it, such as a second transaction inside the first."""


class Closed(WrongState):
    """The producer, consumer or admin was closed before this call."""


class BrokerTimeout(HeadraceError, TimeoutError):
    """No broker answered in time; the message has the address that was tried."""


class SecurityFailed(HeadraceError, PermissionError):
    """A broker was reached, and TLS or signing in failed: a certificate is not trusted, a password is wrong, or one side speaks
    TLS and the other plain text."""


class BrokerError(HeadraceError):
    """A broker answered, with an error.  `code` is the protocol's number, `name` its name."""

    def __init__(self, message: str, *, code: int, name: str, retriable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.retriable = retriable


class TopicNotFound(BrokerError, LookupError):
    """The topic or the partition does not exist."""


class TopicExists(BrokerError):
    """A topic of this name is already there."""


class GroupNotFound(BrokerError, LookupError):
    """The consumer group does not exist."""


class BufferFull(HeadraceError):
    """The producer's buffer is full: records arrive faster than the broker takes them."""


class DeliveryFailed(HeadraceError):
    """A record was not acknowledged and will not be tried again."""

    def __init__(self, message: str, *, topic: str, name: str = "", retriable: bool = False) -> None:
        super().__init__(message)
        self.topic = topic
        self.name = name
        self.retriable = retriable


class DeliveryTimeout(DeliveryFailed, BrokerTimeout):
    """No acknowledgement came in time; whether the record was written is not known unless the producer is idempotent."""


class BatchFailed(DeliveryFailed):
    """Some records of a `send_many` were not acknowledged: `delivered` has those that were, `failures` one error for each of
    the others."""

    def __init__(self, topic: str, delivered: Sequence[Delivery], failures: Sequence[DeliveryFailed]) -> None:
        count = len(delivered) + len(failures)
        super().__init__(
            f"{len(failures)} of {count} records for topic '{topic}' were not acknowledged; the first: {failures[0]}", topic=topic
        )
        self.__cause__ = failures[0].__cause__
        self.delivered = list(delivered)
        self.failures = list(failures)


class EncodeFailed(HeadraceError, TypeError):
    """A key or a value could not be turned into bytes."""


class DecodeFailed(HeadraceError, ValueError):
    """The bytes of a record could not be turned into a key or a value.  `record` has them as they are."""

    def __init__(self, message: str, record: Record[Any, Any]) -> None:
        super().__init__(message)
        self.record = record


class Fenced(HeadraceError):
    """Another instance with the same identity has taken over; this one must stop."""


class TransactionAborted(HeadraceError):
    """The transaction could not be committed and was rolled back; it may be tried again from its start."""


class StillRunning(HeadraceError, TimeoutError):
    """Callbacks did not come to their end in the time given."""


class Reject(HeadraceError):
    """Raise this in a message handler to park the record at once, without further attempts."""


# librdkafka's own codes for "nobody answered".
NOBODY_ANSWERED = frozenset(
    {
        "_TIMED_OUT",
        "_MSG_TIMED_OUT",
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "_RESOLVE",
        "_TIMED_OUT_QUEUE",
        "_WAIT_COORD",
        "REQUEST_TIMED_OUT",
    }
)
# It may work in a moment, although nobody has said so in a word of the protocol.
PASSING = frozenset(
    {"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_RESOLVE", "_WAIT_COORD", "_WAIT_CACHE"}
)
FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED_INSTANCE_ID"})
NO_TOPIC = frozenset({"_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID"})


# What a broker's refusal is about: librdkafka passes on the error's name, and not the sentence that came with it.
LIMITS = {
    "MSG_SIZE_TOO_LARGE": "; the batch it was sent in is above max.message.bytes of the topic (message.max.bytes of the broker): "
    "raise that, or lower batch_bytes of this producer",
    "POLICY_VIOLATION": "; the topic is full: its storage_bytes quota (`headrace quota list`) or, of a topic in memory with "
    "memory.full.policy=reject, its memory.max.bytes or memory.max.messages",
}


# librdkafka wants the name of a group also of those who are in none, and looks for its coordinator; they may not be allowed to.
GROUP_REFUSED = "GROUP_AUTHORIZATION_FAILED"


def passes(error: KafkaError) -> bool:
    """Whether the same may work when it is tried again; of the protocol's own errors librdkafka marks too few."""
    return error.retriable() or error.name() in PASSING or error.code() in RETRIABLE


def refused_settings(error: KafkaException) -> InvalidArgument:
    """librdkafka's refusal to open a client."""
    return InvalidArgument(f"librdkafka does not accept these settings: {error.args[0].str().strip()}")


def translate(error: KafkaError, action: str, bootstrap: str, cause: str | None = None) -> HeadraceError:
    """librdkafka's error as ours.  `action` is what was tried, in words that follow "could not"."""
    name = error.name()
    said = (error.str() or name).removeprefix("Broker: ")
    if name in NOBODY_ANSWERED:
        return BrokerTimeout(f"could not {action}: no answer from {bootstrap} in time ({cause or said})")
    if name in FENCED:
        return Fenced(f"could not {action}: another instance with the same identity has taken over ({said})")
    message = f"could not {action}: {said.rstrip('.')}"
    kind: type[BrokerError] = BrokerError
    if name in NO_TOPIC:
        kind = TopicNotFound
    elif name == "TOPIC_ALREADY_EXISTS":
        kind = TopicExists
    elif name == "GROUP_ID_NOT_FOUND":
        kind = GroupNotFound
    return kind(message, code=error.code(), name=name, retriable=passes(error))


def fatal_reason(error: KafkaError) -> str:
    """Why a producer cannot go on."""
    if error.name() == "CLUSTER_AUTHORIZATION_FAILED":
        # So is an idempotent producer refused by whom no topic may be written; the right that it lacks is one on its topic.
        return "this user has no right to WRITE to any topic (CLUSTER_AUTHORIZATION_FAILED)"
    return str(error.str())


def delivery_error(
    error: KafkaError,
    topic: str,
    bootstrap: str,
    timeout: float,
    cause: str | None,
    message: Message | None = None,
    limit: str | None = None,
) -> DeliveryFailed:
    """Why one record was given up.  `limit` is the one it broke, in words, where somebody has asked for it."""
    name = error.name()
    said = (error.str() or name).removeprefix("Broker: ")
    if name in NOBODY_ANSWERED:
        sentence = f"a record for topic '{topic}' was not acknowledged by {bootstrap} within {timeout:g} s ({cause or said})"
        return DeliveryTimeout(sentence, topic=topic, name=name, retriable=True)
    size = "" if message is None else f" of {len(message.value() or b'') + len(message.key() or b''):,} bytes"
    limit = LIMITS.get(name, "") if limit is None else limit
    return DeliveryFailed(
        f"a record{size if limit else ''} for topic '{topic}' was not written: {said}{limit}",
        topic=topic,
        name=name,
        retriable=error.retriable(),
    )
