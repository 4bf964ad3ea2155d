"""A record as a reader sees it, and the receipt for one that was written.

A Record is immutable.  It keeps librdkafka's message and looks into it only for what is asked: a reader of values does not
pay for headers.  A record with a time to live that has run out is never shown by the SDK; `expired` is how its readers
tell.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Generic, NamedTuple, overload

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from headrace.client.arguments import as_datetime, milliseconds, several, timestamp_ms
from headrace.client.errors import DecodeFailed, InvalidArgument
from headrace.client.records.serialization import BYTES, Codec
from headrace.client.records.type_variables import K, V
from headrace.model.delay.headers import DELAY_HEADER, DELIVER_AT_HEADER
from headrace.model.identity import TopicPartition
from headrace.model.time_to_live import TTL_HEADER, is_expired

Headers = list[tuple[str, bytes | None]]
HeadersGiven = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
HEADERS_ACCEPTED = "pairs of a str and bytes, str or None"


class Delivery(NamedTuple):
    """Where an acknowledged record is.

    `offset` is None where nobody said it: with `acks=0`, and when the broker's reply for a batch was lost and a later one
    showed that the batch had been written.  The record is in its partition, and there once.  `timestamp` is in milliseconds
    since 1970.
    """

    topic: str
    partition: int
    offset: int | None
    timestamp: int


class Record(Generic[K, V]):
    """One record: `topic`, `partition`, `offset`, `timestamp` (milliseconds), `time`, `key`, `value`, `headers`."""

    __slots__ = ("_message", "value")
    # Filled in by whoever makes one (`record_of`, `Records`): with an `__init__`, making one took 135 ns instead of 104.
    _message: Message
    value: V

    @classmethod
    def of(
        cls,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        partition: int = 0,
        offset: int = 0,
        timestamp: int = 0,
        headers: HeadersGiven | None = None,
    ) -> Record[Any, Any]:
        """A record made by hand, for the tests of somebody's handler.  Its raw bytes are there when key and value are bytes
        or str."""
        raw = [part.encode() if isinstance(part, str) else part if isinstance(part, bytes) else None for part in (key, value)]
        message: Message = Message(
            topic=topic,
            partition=partition,
            offset=offset,
            key=raw[0],
            value=raw[1],
            headers=headers_for_sending(headers, None),
            timestamp=(TIMESTAMP_CREATE_TIME, timestamp),
        )
        return keyed_record_of(message, key, value)

    @property
    def key(self) -> K:
        """As its format reads it; None when there is none."""
        key: Any = self._message.key()
        return key  # type: ignore[no-any-return]

    @property
    def topic(self) -> str:
        """Where it was read."""
        return self._message.topic() or ""

    @property
    def partition(self) -> int:
        """The number of its partition."""
        partition = self._message.partition()
        return -1 if partition is None else partition

    @property
    def offset(self) -> int:
        """Its place in its partition."""
        offset = self._message.offset()
        return -1 if offset is None else offset

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition together."""
        return TopicPartition(self.topic, self.partition)

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970: when it was sent, or when the broker wrote it, as the topic is set."""
        timestamp: int = self._message.timestamp()[1]
        return timestamp

    @property
    def time(self) -> datetime:
        """The timestamp as a datetime in UTC."""
        return as_datetime(max(self.timestamp, 0))

    @property
    def headers(self) -> Headers:
        """Names and bytes, in their order; a name may come twice."""
        headers: Any = self._message.headers()
        return list(headers or ())

    def header(self, name: str) -> bytes | None:
        """The last value of a header, as Kafka's own clients read it; None when it is not there."""
        return next((value for each, value in reversed(self.headers) if each == name), None)

    @property
    def raw_key(self) -> bytes | None:
        """The bytes of the key."""
        key: bytes | None = self._message.key()
        return key

    @property
    def raw_value(self) -> bytes | None:
        """The bytes of the value."""
        value: bytes | None = self._message.value()
        return value

    def __repr__(self) -> str:
        return f"Record({self.topic}[{self.partition}]@{self.offset}, key={self.key!r}, value={self.value!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        mine = (self.topic, self.partition, self.offset, self.timestamp, self.key, self.value, self.headers)
        return mine == (other.topic, other.partition, other.offset, other.timestamp, other.key, other.value, other.headers)

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))


class KeyedRecord(Record[K, V]):
    """A record whose key is more than its bytes."""

    __slots__ = ("decoded_key",)
    decoded_key: K

    @property
    def key(self) -> K:
        """As its format reads it; None when there is none."""
        return self.decoded_key


def message_of(record: Record[Any, Any]) -> Message:
    """What librdkafka gave for it, for those who put it back."""
    return record._message


def record_of(message: Message, value: Any) -> Record[Any, Any]:
    """A record whose key is bytes."""
    record: Record[Any, Any] = Record()
    record._message = message
    record.value = value
    return record


def keyed_record_of(message: Message, key: Any, value: Any) -> Record[Any, Any]:
    record: KeyedRecord[Any, Any] = KeyedRecord()
    record._message = message
    record.value = value
    record.decoded_key = key
    return record


class Records(Sequence[Record[K, V]]):
    """The records of one batch, in order: a list that is not changed.

    Each is made when it is looked at.  A thousand of them kept beside their thousand messages cost the reader a quarter of
    its CPU time in garbage collection.
    """

    __slots__ = ("_keys", "_messages", "_values")

    def __init__(self, messages: list[Message], values: list[Any] | None = None, keys: list[Any] | None = None) -> None:
        """`values` and `keys` are None where the bytes of the messages are meant."""
        self._messages = messages
        self._values = values
        self._keys = keys

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Record[K, V]]:
        if self._keys is not None:
            return map(keyed_record_of, self._messages, self._keys, self._values or map(Message.value, self._messages))
        if self._values is not None:
            return map(record_of, self._messages, self._values)
        return self._plain()

    def _plain(self) -> Iterator[Record[K, V]]:
        for message in self._messages:
            record: Record[K, V] = Record()  # and not `record_of`: this is the loop that most readers of much are in
            record._message = message
            record.value = message.value()
            yield record

    @overload
    def __getitem__(self, index: int) -> Record[K, V]: ...
    @overload
    def __getitem__(self, index: slice) -> Records[K, V]: ...
    def __getitem__(self, index: int | slice) -> Record[K, V] | Records[K, V]:
        if isinstance(index, slice):
            parts = (None if part is None else part[index] for part in (self._values, self._keys))
            return Records(self._messages[index], *parts)
        message = self._messages[index]
        value = message.value() if self._values is None else self._values[index]
        return record_of(message, value) if self._keys is None else keyed_record_of(message, self._keys[index], value)

    def __add__(self, other: Iterable[Record[K, V]]) -> list[Record[K, V]]:
        return [*self, *other]

    def __radd__(self, other: Iterable[Record[K, V]]) -> list[Record[K, V]]:
        return [*other, *self]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Records | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return repr(list(self))


# There is one for each partition, and it is asked for with every record.
def joined(first: Records[K, V], second: Records[K, V]) -> Records[K, V]:
    """Both together; they have the same formats."""
    if not first:
        return second
    return Records(
        first._messages + second._messages,
        None if first._values is None or second._values is None else first._values + second._values,
        None if first._keys is None or second._keys is None else first._keys + second._keys,
    )


_place = lru_cache(maxsize=10_000)(TopicPartition)


def place_of(message: Message) -> TopicPartition:
    return _place(message.topic() or "", message.partition() or 0)


def unexpired(messages: list[Message]) -> list[Message]:
    """Those whose time to live has not run out."""
    if not any(map(Message.headers, messages)):
        return messages
    return [message for message in messages if not expired(message)]


def decoded(message: Message, keys: Codec, values: Codec) -> Record[Any, Any]:
    """The record in a message, or DecodeFailed with the record as bytes."""
    key, value = message.key(), message.value()
    part, using = "key", keys
    try:
        if key is not None and keys is not BYTES:
            key = keys.decode(key)
        part, using = "value", values
        if value is not None and values is not BYTES:
            value = values.decode(value)
    except Exception as error:
        raw = record_of(message, message.value())
        where = f"{raw.topic}[{raw.partition}]@{raw.offset}"
        raise DecodeFailed(f"the {part} of the record {where} could not be read as {using.name}: {error}", raw) from error
    return record_of(message, value) if keys is BYTES else keyed_record_of(message, key, value)


def expired(message: Message, now_ms: int | None = None) -> bool:
    """Whether a message's time to live has run out."""
    headers = message.headers()
    if not headers:
        return False
    return is_expired(headers, message.timestamp()[1], time.time_ns() // 1_000_000 if now_ms is None else now_ms)


def headers_for_sending(
    given: HeadersGiven | None,
    ttl: float | timedelta | None,
    delay: float | timedelta | None = None,
    at: datetime | int | None = None,
) -> list[tuple[str, bytes | None]] | None:
    """Headers as librdkafka takes them, with the time to live and the time of delivery among them."""
    if given is None and ttl is None and delay is None and at is None:
        return None
    items = given.items() if isinstance(given, Mapping) else several("headers", given or (), HEADERS_ACCEPTED)
    headers = [_header(item) for item in items]
    if ttl is not None:
        headers = [each for each in headers if each[0] != TTL_HEADER]
        headers.append((TTL_HEADER, b"%d" % milliseconds("ttl", ttl, at_least=0.001)))
    if delay is not None or at is not None:
        headers = [each for each in headers if each[0] not in (DELAY_HEADER, DELIVER_AT_HEADER)]
        headers.append(_time_of_delivery(delay, at))
    return headers


def _time_of_delivery(delay: float | timedelta | None, at: datetime | int | None) -> tuple[str, bytes]:
    if delay is not None and at is not None:
        raise InvalidArgument(f"delay={delay!r} and at={at!r} are both given; accepted: one of them")
    if delay is not None:
        return DELAY_HEADER, b"%d" % milliseconds("delay", delay)
    return DELIVER_AT_HEADER, b"%d" % timestamp_ms("at", at)


def _header(item: object) -> tuple[str, bytes | None]:
    match item:
        case (str() as name, None):
            return name, None
        case (str() as name, bytes() as value):
            return name, value
        case (str() as name, str() as value):
            return name, value.encode()
    raise InvalidArgument(f"headers holds {item!r}; accepted: {HEADERS_ACCEPTED}, in a dict or a list")
