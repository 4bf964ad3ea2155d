"""Other people's codecs, each behind one function: read bytes, give the values and the bytes that it would write itself.

Values are brought to one form for comparison: structs become dicts by field name where the referee has names, else lists in wire
order; times become milliseconds, enumerations numbers.
"""

import io
from dataclasses import fields
from dataclasses import is_dataclass as is_kio_entity
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, cast
from uuid import UUID

import kio.index
from aiokafka.protocol import admin, commit, coordination, fetch, group, metadata, offset, produce, transaction
from kafka.protocol.api_message import ApiMessage
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from headrace.wire.schema import fields_of, layout_of
from tests.unit.wire.wire_strategies import is_ours

EPOCH_MS = timedelta(milliseconds=1)


def is_known_to_kio(message: type[Any], version: int) -> bool:
    """Whether kio has a class for this version of a message, by its index: importing its 550 modules takes seconds."""
    kind: Any = EntityType.request if message.__name__.endswith("Request") else EntityType.response
    path = schema_name_map.get(api_key_map.get(message.api.key, ""), {}).get(version, {}).get(kind, "")
    return path.endswith(f":{message.__name__}")


def kio_entity(message: type[Any], version: int) -> type[Any]:
    """kio's class for this version of a message, of which it has one."""
    kind: Any = EntityType.request if message.__name__.endswith("Request") else EntityType.response
    return kio.index.load_payload_module(message.api.key, version, kind).__dict__[message.__name__]  # type: ignore[no-any-return]


def through_kio(entity: type[Any], data: bytes) -> tuple[Any, bytes]:
    """What kio reads, and what it writes of that."""
    value, size = entity_reader(entity)(data, 0)
    assert size == len(data), f"kio read {size} bytes of {len(data)}"
    written = io.BytesIO()
    entity_writer(entity)(written, value)
    return by_name(value), written.getvalue()


def by_name(value: Any) -> Any:
    """A comparable form of what kio read."""
    if is_kio_entity(value):
        return {field.name.removesuffix("_ms"): by_name(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [by_name(item) for item in value]
    if isinstance(value, timedelta):
        return value // EPOCH_MS
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return plain(value)


def plain(value: Any) -> Any:
    """Numbers for enumerations, bytes for views, null for the zero id."""
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if isinstance(value, UUID):
        return value if value.int else None
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def ours_by_name(value: Any, version: int) -> Any:
    """The comparable form of a message of ours: the fields that the version carries."""
    if hasattr(type(value), "__dataclass_fields__"):
        flexible = not hasattr(type(value), "api") or layout_of(type(value)).is_flexible(version)
        present = [f for f in fields_of(type(value)) if f.in_version(version) and (flexible or f.tag is None) and not is_ours(f)]
        return {field.name.removesuffix("_ms"): ours_by_name(getattr(value, field.name), version) for field in present}
    if isinstance(value, tuple):
        return [ours_by_name(item, version) for item in value]
    return plain(value)


def kafka_python_message(message: type[Any], version: int) -> type[Any] | None:
    """kafka-python's class for a message, if the version is among those that it was generated for."""
    found = KAFKA_PYTHON.get(message.__name__)
    if found is None:
        return None
    oldest, newest = found._valid_versions
    return found if oldest <= version <= newest else None


def _kafka_python_messages() -> dict[str, type[Any]]:
    found: dict[str, type[Any]] = {}
    for name in ("admin", "consumer", "metadata", "producer", "sasl"):
        for value in vars(import_module(f"kafka.protocol.{name}")).values():
            if isinstance(value, type) and issubclass(value, ApiMessage) and value is not ApiMessage:
                found[value.__name__] = value
    return found


KAFKA_PYTHON = _kafka_python_messages()


def through_kafka_python(kind: type[Any], data: bytes, version: int) -> tuple[Any, bytes]:
    """What kafka-python reads, and what it writes of that."""
    flexible = kind.flexible_version_q(version)
    value = kind.decode(data, version=version)
    return _without_suffixes(value.to_dict(json=False)), bytes(
        kind._struct.encode(value, version=version, compact=flexible, tagged=flexible)
    )


def _without_suffixes(value: Any) -> Any:
    if isinstance(value, dict):
        return {name.removesuffix("_ms"): _without_suffixes(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_without_suffixes(item) for item in value]
    return plain(value)


AIOKAFKA: dict[tuple[int, int, str], type[Any]] = {
    (getattr(kind, "API_KEY"), getattr(kind, "API_VERSION"), side): kind  # noqa: B009 - no class that mypy knows
    for module in (admin, commit, coordination, fetch, group, metadata, offset, produce, transaction)
    for name, kind in cast(dict[str, Any], vars(module)).items()
    if isinstance(kind, type) and getattr(kind, "SCHEMA", None) is not None and hasattr(kind, "API_VERSION")
    for side in ["Response" if "Response" in name else "Request"]
}
"""aiokafka declares each version of a message by itself, also those that newer brokers have given up."""


def through_aiokafka(kind: type[Any], data: bytes) -> tuple[Any, bytes]:
    """What aiokafka reads (all values in wire order, without structure), and what it writes of that."""
    value = kind.decode(data)
    return flat([getattr(value, name) for name in kind.SCHEMA.names]), value.encode()


def flat(value: Any) -> list[Any]:
    """All values in wire order.  A dict is a tagged section, which aiokafka never looks into."""
    if isinstance(value, dict):
        return []
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flat(item)]
    return [plain(value)]


def ours_flat(value: Any, version: int) -> list[Any]:
    """The untagged values of a message of ours that the version carries, in wire order."""
    if hasattr(type(value), "__dataclass_fields__"):
        present = [field for field in fields_of(type(value)) if field.in_version(version) and field.tag is None]
        return [leaf for field in present for leaf in ours_flat(getattr(value, field.name), version)]
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in ours_flat(item, version)]
    return [plain(value)]
