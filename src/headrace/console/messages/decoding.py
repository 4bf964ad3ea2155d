"""Records as people read them: JSON, text, or what a schema of the registry makes of them; with what is hidden left out.

A value by a schema begins with a byte 0 and the schema's id in four bytes, as Confluent's serializers write it.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from headrace.client.errors import HeadraceError
from headrace.client.formats.schema_format import HEADER, MAGIC
from headrace.console.serving.hiding import HIDDEN, Hiding, without
from headrace.gateway.brokers.tails import Shown
from headrace.gateway.records.formats import shown, shown_header
from headrace.registry.rules.errors import RegistryError

if TYPE_CHECKING:
    from headrace.gateway.callers.caller import Caller
    from headrace.gateway.gateway import Gateway

SHOWN_BYTES_MAX: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a key or a value is shown as; `note` says why it is not shown better."""

    value: Any
    form: str | None
    schema: int | None = None
    note: str | None = None


class Decoder:
    """Of one request: schemas are looked up as its caller, and remembered for as long as it lasts."""

    def __init__(self, gateway: Gateway, caller: Caller, hiding: Hiding) -> None:
        self._gateway = gateway
        self._caller = caller
        self._hiding = hiding
        self._schemas: dict[int, Any] = {}

    async def document(self, given: Shown, *, raw: bool = False) -> dict[str, Any]:
        """A record for the page, and for filters."""
        record, topic = given.record, given.place.topic
        facts = {
            "partition": given.place.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key_size": None if record.key is None else len(record.key),
            "value_size": None if record.value is None else len(record.value),
        }
        if self._hiding.hides_all(topic):
            return {**facts, "key": _hidden(record.key), "value": _hidden(record.value), "headers": [], "hidden": True}
        parts = self._hiding.parts(topic)
        key, value = await self._decoded(record.key), await self._decoded(record.value)
        if parts and value.form in ("text", "binary"):
            value = Decoded(HIDDEN, value.form)  # what cannot be looked into cannot be shown in part
        for pointer in parts:
            value = Decoded(without(value.value, pointer), value.form, value.schema, value.note)
        more = {"key_raw": _base64(record.key), "value_raw": _base64(record.value)} if raw and not parts else {}
        return {
            **facts,
            "key": key.value,
            "key_format": key.form,
            "key_schema": key.schema,
            "value": value.value,
            "value_format": value.form,
            "value_schema": value.schema,
            "note": value.note or key.note,
            "headers": [[name, *shown_header(data)] for name, data in record.headers],
            **({"hidden": True} if parts else {}),
            **more,
        }

    async def _decoded(self, data: bytes | None) -> Decoded:
        if data is not None and len(data) > SHOWN_BYTES_MAX:
            text = data[:1024].decode(errors="replace")
            return Decoded(text, "text", note=f"The first 1,024 of {len(data):,} bytes; download it to see all.")
        if data is None or len(data) <= HEADER.size or data[0] != MAGIC:
            return Decoded(*shown(data, "auto"))
        number = HEADER.unpack_from(data)[1]
        schema = await self._schema(number)
        if schema is None or isinstance(schema, str):
            return Decoded(*shown(data, "auto"), None, schema)
        try:
            value, form = _by_schema(schema, number, data)
            orjson.dumps(value)
        except Exception as error:  # the libraries' errors have no common base, and no record may hide those behind it
            return Decoded(*shown(data, "auto"), number, f"It does not fit schema {number}: {error}"[:300])
        return Decoded(value, form, number)

    async def _schema(self, number: int) -> Any:
        """A schema; None where there is none of this id, a text where it cannot be looked up."""
        if number not in self._schemas:
            try:
                self._schemas[number] = await self._gateway.schemas.by_id(self._caller, number)
            except (HeadraceError, RegistryError) as error:
                self._schemas[number] = str(error)
        return self._schemas[number]


def _by_schema(schema: Any, number: int, data: bytes) -> tuple[Any, str]:
    match schema.schema_type:
        case "JSON":
            return orjson.loads(data[HEADER.size :]), "json schema"
        case "AVRO":
            return _plain(_read_avro(schema, data)), "avro"
    return _read_protobuf(schema, data), "protobuf"


def _read_avro(schema: Any, data: bytes) -> Any:
    import fastavro

    named: dict[str, Any] = {}
    for tree in schema.known:
        fastavro.parse_schema(tree, named_schemas=named)
    source = io.BytesIO(data)
    source.seek(HEADER.size)
    return fastavro.schemaless_reader(source, fastavro.parse_schema(schema.tree, named_schemas=named), None)


def _read_protobuf(schema: Any, data: bytes) -> Any:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message_factory import GetMessageClass

    path, at = _message_indexes(data, HEADER.size)
    message: Any = list(schema.file.message_types_by_name.values())[path[0]]
    for index in path[1:]:
        message = message.nested_types[index]
    return MessageToDict(GetMessageClass(message).FromString(data[at:]), preserving_proto_field_name=True)


def _message_indexes(data: bytes, at: int) -> tuple[list[int], int]:
    """Which message of the file it is: zigzag numbers, the count first; a single 0 is the first message."""
    count, at = _varint(data, at)
    path = []
    for _ in range(count):
        index, at = _varint(data, at)
        path.append(index)
    return path or [0], at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at


def _plain(value: Any) -> Any:
    """Avro has values that JSON has not."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _hidden(data: bytes | None) -> str | None:
    return None if data is None else HIDDEN


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
