"""Requests that are half valid: the shape is right, in any API and version, and the values are anything a client could send.

Everything comes from the declarations in `wire/messages`, so a new API is tried as soon as it is declared.  Values are drawn from
what makes brokers stumble: boundaries, nulls, empty and long texts, names that exist, and what earlier replies brought under the
same field name (member ids, epochs, producer ids, topic ids), so that some requests get far.
"""

import random
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.wire.schema import ZERO_UUID, Field, Scalar, Sized, WireType, array, batches, boolean, fields_of, float64, uuid

NUMBERS: Mapping[str, tuple[int, int]] = {
    "b": (-(2**7), 2**7 - 1),
    "h": (-(2**15), 2**15 - 1),
    "H": (0, 2**16 - 1),
    "i": (-(2**31), 2**31 - 1),
    "I": (0, 2**32 - 1),
    "q": (-(2**63), 2**63 - 1),
}
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "",
    "a",
    "0",
    "1",
    "-1",
    "true",
    "delete",
    "compact",
    "compact,delete",
    "*",
    "range",
    "uniform",
    "consumer",
    ".",
    "..",
    "a b",
    "caf\u00e9",
    "\u4e2d\U0001f600",
    "\0",
    "\n",
    "x" * 249,
    "x" * 250,
    "y" * 32_767,
    "9223372036854775808",
    "1e400",
    "nan",
)
# Of records: some of them mean something to a broker, or nearly.
VALUES = (None, b"v", b"v", b"v", b"[" * 100_000, b'{"run": "1"}', b'{"cron": "* * * * *", "topic": "events"}')
HEADERS: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
    (),
    (),
    (("headrace-delay-ms", b"1"),),
    (("headrace-delay-ms", b"9" * 40),),
    (("headrace-deliver-at", b"0"),),
    (("headrace-deliver-at", None),),
    (("headrace-cancel", b""),),
    (("headrace-ttl-ms", b"-1"),),
    (("headrace-ttl-ms", b"1"), ("traceparent", b"00-\xff")),
)
# What a wait is called: mostly short here, so that most requests are answered at once.
WAITS_FOR_DATA = frozenset({"max_wait_ms", "timeout_ms"})
WAITS = WAITS_FOR_DATA | {"session_timeout_ms", "rebalance_timeout_ms", "transaction_timeout_ms"}
REMEMBERED = 24


# Numbers that mean something, by the end of a field's name.
SENSIBLE: Mapping[str, tuple[int, ...]] = {
    "acks": (-1, -1, 1, 0),
    "resource_type": (2, 2, 4, 8, 16, 32),
    "config_operation": (0, 0, 1, 2, 3),
    "election_type": (0, 1),
    "isolation_level": (0, 1),
    "key_type": (0, 1, 2),
    "replica_id": (-1, -1, 1, 2),
    "session_id": (0, 0, 0),
    "session_epoch": (-1, 0, 0, 1),
    "timestamp": (-1, -2, -3, -4, 0, 1_700_000_000_000),
    "endpoint_type": (1, 1, 2),
    "match_type": (0, 1, 2),
    "min_bytes": (0, 0, 1),
    "max_bytes": (1_000_000, 1, 0),
    "num_partitions": (1, 2, -1),
    "replication_factor": (1, -1),
    "partition_count": (1, 2),
    "count": (4, 5, 6),
    "partition": (0, 1, 2),
    "partition_index": (0, 1, 2),
    "partition_indexes": (0, 1, 2),
    "partitions": (0, 1, 2),
    "index": (0, 1, 2),
    "broker_ids": (1, 1, 2),
    "replicas": (1, 1, 2),
    "epoch": (-1, 0, 0, 1),
}


class HalfValidRequests:
    """A seeded source of requests.  `names` are texts that mean something to the broker asked, by a part of the name of the field
    (or of the struct and the field) that holds them; those under the empty text fit anywhere."""

    def __init__(self, seed: int, names: Mapping[str, Sequence[str]]) -> None:
        self.chance = random.Random(seed)
        self._names = names
        self._seen: dict[str, deque[Any]] = defaultdict(lambda: deque(maxlen=REMEMBERED))

    def message(self, kind: type[Any], version: int) -> Any:
        """A message that this version can carry."""
        # Most of a request is plausible, or nothing would ever get past the first check.
        boldness = self.chance.choice((0.02, 0.1, 0.3, 0.9))
        return self._struct(kind, version, boldness, depth=0)

    def learn(self, message: Any) -> None:
        """Remember what a reply brought, by the names of its fields."""
        for field in fields_of(type(message)):
            value = getattr(message, field.name)
            for item in value if isinstance(value, tuple) else (value,):
                if hasattr(type(item), "__dataclass_fields__"):
                    self.learn(item)
                elif isinstance(item, UUID | int | str) and not isinstance(item, bool) and "error" not in field.name:
                    self._seen[field.name].append(item)

    def _struct(self, kind: type[Any], version: int, boldness: float, depth: int) -> Any:
        values = {}
        for field in fields_of(kind):
            if field.in_version(version):
                values[field.name] = self._field(kind, field, version, boldness, depth)
        return kind(**values)

    def _field(self, owner: type[Any], field: Field, version: int, boldness: float, depth: int) -> Any:
        if field.nullable_in(version) and self.chance.random() < 0.15:
            return None
        if field.default is not None and field.tag is not None and self.chance.random() < 0.5:
            return field.default()
        return self._value(field.type, f"{owner.__name__}.{field.name}", version, boldness, depth)

    def _value(self, kind: WireType, path: str, version: int, boldness: float, depth: int) -> Any:
        match kind:
            case Scalar():
                return self._scalar(kind, path.rpartition(".")[2], boldness)
            case Sized():
                return self._text(path, boldness) if kind.text else self._bytes(kind, boldness)
            case array():
                count = self.chance.choice((0, 1, 1, 1, 2, 3)) if depth < 3 else self.chance.choice((0, 1, 1))
                return tuple(self._value(kind.element, path, version, boldness, depth + 1) for _ in range(count))
            case _:
                return self._struct(kind, version, boldness, depth + 1)

    def _scalar(self, kind: Scalar, name: str, boldness: float) -> Any:
        chance = self.chance
        if kind is boolean:
            return chance.random() < 0.5
        if kind is float64:
            return chance.choice(FLOATS) if chance.random() < 0.7 else chance.uniform(-1e6, 1e6)
        if kind is uuid:
            if (known := self._known(name, UUID)) is not None and chance.random() < 0.7:
                return known
            return ZERO_UUID if chance.random() < 0.5 else UUID(int=chance.getrandbits(128))
        low, high = NUMBERS[kind.code]
        if name in WAITS and chance.random() > boldness / 4:
            return chance.choice((0, 1, 5, 50) if name in WAITS_FOR_DATA else (100, 200, 6000, 60_000))
        if chance.random() < boldness:
            edges = (low, low + 1, -2, -1, 0, high - 1, high, chance.randint(low, high), chance.randint(low, high) >> 16)
            return min(max(chance.choice(edges), low), high)
        known = self._known(name, int)
        if known is not None and chance.random() < 0.6:
            return min(max(known, low), high)
        sensible = next((numbers for end, numbers in SENSIBLE.items() if name.endswith(end)), (-1, 0, 0, 0, 1, 1, 2, 3, 4, 8))
        return min(max(chance.choice(sensible), low), high)

    def _text(self, path: str, boldness: float) -> str:
        chance = self.chance
        if chance.random() < boldness / 2:
            return chance.choice(TEXTS)
        known = self._known(path.rpartition(".")[2], str)
        if known is not None and chance.random() < 0.4:
            return str(known)
        fitting = next((names for part, names in self._names.items() if part in path), ())
        return chance.choice(fitting or self._names[""]) if chance.random() > boldness / 2 else chance.choice(self._names[""])

    def _known(self, name: str, kind: type) -> Any:
        seen = self._seen.get(name) or self._seen.get(_SAME_AS.get(name, ""))
        fitting = [value for value in seen or () if isinstance(value, kind)]
        if not fitting:
            return None
        # Mostly what came last: ids and epochs of one reply belong together.
        return fitting[-1] if self.chance.random() < 0.6 else self.chance.choice(fitting)

    def _bytes(self, kind: Sized, boldness: float) -> bytes:
        chance = self.chance
        if kind is not batches:
            return chance.choice((b"", b"\0", b"\0\0\0\0\0\0", b"\0\1\0\0\0\1\0\1a", chance.randbytes(chance.randrange(40))))
        return self._spoilt(self._batch(), boldness)

    def _batch(self) -> bytes:
        chance = self.chance
        options: dict[str, Any] = {}
        if chance.random() < 0.4:
            options = {
                "producer_id": self._known("producer_id", int) or chance.choice((0, 1, -1, 2**63 - 1)),
                "producer_epoch": min(32_767, max(-1, self._known("producer_epoch", int) or 0)),
                "base_sequence": chance.choice((0, 1, 2, -1, 2**31 - 1)),
                "transactional": chance.random() < 0.5,
            }
        stamp = chance.choice((1_700_000_000_000, 0, -1, 2**62))
        key: Callable[[], bytes | None] = lambda: chance.choice((None, b"", b"k"))  # noqa: E731
        records = [
            Record(index, stamp, key(), chance.choice(VALUES), chance.choice(HEADERS)) for index in range(chance.randrange(1, 4))
        ]
        return build_batch(records, **options)

    def _spoilt(self, batch: bytes, boldness: float) -> bytes:
        chance = self.chance
        if chance.random() > boldness:
            return batch
        match chance.randrange(5):
            case 0:
                return b""
            case 1:
                return batch[: chance.randrange(len(batch))]
            case 2:
                return batch + self._batch()
            case 3:
                return chance.randbytes(chance.randrange(200))
            case _:
                spoilt = bytearray(batch)
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
                return bytes(spoilt)


# Fields of requests that other names in replies fill.
_SAME_AS = {
    "generation_id_or_member_epoch": "generation_id",
    "partition": "partition_index",
    "partition_indexes": "partition_index",
    "partitions": "partition_index",
    "current_leader_epoch": "leader_epoch",
    "fetch_offset": "base_offset",
    "topic": "name",
    "topic_name": "name",
    "v3_and_below_transactional_id": "transactional_id",
    "v3_and_below_producer_id": "producer_id",
    "v3_and_below_producer_epoch": "producer_epoch",
}
