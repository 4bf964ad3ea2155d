"""Records by the schemas of the registry beside: JSON in, Avro, Protobuf or JSON by a schema in the log, and JSON out again.

Always: who writes or reads so may read the registry's topic; what is large is read off the loop, once for all.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.client.formats.schema_format import HEADER, MAGIC
from headrace.gateway.api.operations import Parameter
from headrace.gateway.records.formats import SCHEMA, Form
from headrace.gateway.records.schema_codecs import Codec, codec_of
from headrace.gateway.serving.problems import Problem, not_found
from headrace.model.access.acls import Operation
from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.entries import SchemaVersion
from headrace.registry.rules.reading import read_version, referenced
from headrace.registry.rules.subjects import DEFAULT_CONTEXT

if TYPE_CHECKING:
    from headrace.gateway.administration.schemas import Schemas
    from headrace.gateway.api.call import Call
    from headrace.gateway.brokers.tails import Shown
    from headrace.gateway.callers.caller import Caller

CODECS_MAX: Final = 200

KEY_SCHEMA_ID: Final = Parameter(
    "key_schema_id",
    "With key_format=schema: by which; the newest of TOPIC-key if not given.",
    "number",
    minimum=1,
    maximum=2**31 - 1,
)
VALUE_SCHEMA_ID: Final = Parameter(
    "value_schema_id",
    "With value_format=schema: by which; the newest of TOPIC-value if not given.",
    "number",
    minimum=1,
    maximum=2**31 - 1,
)


@dataclass(frozen=True, slots=True)
class Encoder:
    """Writes by one schema."""

    id: int
    codec: Codec

    def __call__(self, value: Any, what: str) -> bytes:
        try:
            return HEADER.pack(MAGIC, self.id) + self.codec.encode(value)
        except ValueError as error:
            raise Problem(
                422, "not_of_the_schema", f"{what} is not of schema {self.id}: {error}", "Send what it asks for."
            ) from None


class BySchema:
    """Codecs by the id of their schema.  Two that show records so are the same one, and share what was made."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._codecs: OrderedDict[int, Codec | None] = OrderedDict()  # None for a schema that nothing can be read by

    async def encoder(self, call: Call, part: str) -> Encoder | None:
        """For keys or values of a request, where it wants one."""
        if call.query[f"{part}_format"] != SCHEMA:
            return None
        return await self.encoder_for(call.caller, call.query[f"{part}_schema_id"], f"{call.path('topic')}-{part}", None)

    async def encoder_for(self, caller: Caller, id: int | None, subject: str, version: int | None) -> Encoder:
        """By an id, by a version of a subject, or by its newest."""
        await self._schemas.usable_by(caller, Operation.READ)
        id = id or self._id_of(subject, version)
        await self._make([id])
        codec = self._codecs[id]
        if codec is None:
            raise not_found("schema_not_found", f"There is no schema {id}, or it cannot be used.", "GET /schemas lists them.")
        return Encoder(id, codec)

    def _id_of(self, subject: str, version: int | None) -> int:
        versions: list[SchemaVersion] = self._schemas.catalog.versions(subject)
        chosen = [each for each in versions if version in (None, each.version)]
        if not chosen:
            raise not_found(
                "subject_not_found", f"Subject '{subject}' has no such schema.", "POST /subjects/SUBJECT/versions registers one."
            )
        return chosen[-1].id

    async def prepare(self, records: Sequence[Shown], keys: Form, values: Form) -> None:
        """Make ready what these records need to be shown."""
        if keys is not self and values is not self:
            return
        found = [each.record.key for each in records if keys is self] + [each.record.value for each in records if values is self]
        await self._make({_id_in(data) for data in found})

    async def _make(self, ids: Iterable[int | None]) -> None:
        lacking = [id for id in ids if id is not None and id not in self._codecs]
        if not lacking:
            return
        if any(self._schemas.catalog.by_id(DEFAULT_CONTEXT, id) is None for id in lacking):
            await self._schemas.catch_up()  # one that was registered a moment ago, elsewhere
        for id in lacking:
            self._codecs[id] = await asyncio.to_thread(_codec, self._schemas.catalog, id)
            if self._codecs[id] is None:
                asyncio.get_running_loop().call_later(5.0, self._codecs.pop, id, None)
        while len(self._codecs) > CODECS_MAX:
            self._codecs.popitem(last=False)

    def show(self, data: bytes) -> tuple[Any, str] | None:
        """A value that was written by a schema; None where it was not, or cannot be read."""
        codec = self._codecs.get(_id_in(data) or 0)
        if codec is None:
            return None
        try:
            return codec.decode(data[HEADER.size :]), SCHEMA
        except ValueError:
            return None


def _id_in(data: bytes | None) -> int | None:
    if data is None or len(data) < HEADER.size or data[0] != MAGIC:
        return None
    id: int = HEADER.unpack_from(data)[1]
    return id


def _codec(catalog: Catalog, id: int) -> Codec | None:
    found = catalog.by_id(DEFAULT_CONTEXT, id)
    if found is None:
        return None
    try:
        others = tuple(referenced(catalog, found.subject, found.content).values())
        return codec_of(read_version(catalog, found), others)
    except Problem:
        raise
    except Exception:
        return None


async def shown_as(call: Call, part: str) -> Form:
    """What the query says of keys or values: a word, or what shows them by their schemas."""
    form: str = call.query[part]
    if form != SCHEMA:
        return form
    await call.gateway.schemas.usable_by(call.caller, Operation.READ)
    return call.gateway.by_schema
