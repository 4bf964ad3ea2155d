"""Writing records: one, many, or a stream of them.  Each is answered with where it is, or with its own error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import orjson
from aiohttp import web

from headrace.client.errors import BatchFailed, BrokerError, BrokerTimeout, HeadraceError, InvalidArgument, TopicNotFound
from headrace.client.records.record import Delivery
from headrace.gateway.api.call import Call, body_too_large, read_whole
from headrace.gateway.api.operations import Operations, Parameter, Reply
from headrace.gateway.api.shapes import described, read
from headrace.gateway.callers.caller import Caller
from headrace.gateway.records.by_schema import KEY_SCHEMA_ID, VALUE_SCHEMA_ID
from headrace.gateway.records.formats import FORMATS, SCHEMA, delayed, encoded, headers_of
from headrace.gateway.serving.problems import Problem, bad_request, problem_of
from headrace.model.errors import ErrorCode

operations = Operations("records")

NDJSON: Final = "application/x-ndjson"
STREAM_RECORDS: Final = 2000  # handed over together
STREAM_BATCHES: Final = 4  # on their way at once
TOPIC_S: Final = 1.0  # for a topic that comes to be by being named
AGAIN_S: Final = 0.1
LINE_BYTES_MAX: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to write."""

    value: Annotated[Any, described("The value; null deletes the key of a compacted topic.", example={"total": 12.5})] = None
    key: Annotated[Any, described("The key; records of one key are in order.", example="ann")] = None
    headers: Annotated[Any, described("Names with texts, as an object or as pairs.", example={"source": "web"})] = None
    partition: Annotated[int | None, described("This one; else the key decides.", minimum=0, maximum=2**31 - 1)] = None
    timestamp: Annotated[int | None, described("When it happened, in milliseconds since 1970; else now.", minimum=0)] = None
    delay_ms: Annotated[
        int | None, described("How long the broker keeps it back, where the topic has headrace.delay.enable.", minimum=0)
    ] = None
    deliver_at: Annotated[int | None, described("Instead: until when, in milliseconds since 1970.", minimum=0)] = None
    key_format: Annotated[str | None, described("How the key becomes bytes.", enum=[*FORMATS, None])] = None
    value_format: Annotated[str | None, described("How the value becomes bytes.", enum=[*FORMATS, None])] = None


@dataclass(frozen=True, slots=True)
class NewRecords:
    """Many records."""

    records: Annotated[list[NewRecord], described("In order.", minItems=1, maxItems=100_000)]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where a record is, or why it is not there."""

    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Receipts:
    """One answer for each record, in their order."""

    records: list[Receipt]


KEY = Parameter("key", "The key of a record whose value is the whole body.")
FORMATS_OF_ALL: Final = (*FORMATS, SCHEMA)
KEY_FORMAT = Parameter("key_format", "How keys become bytes, unless a record says it.", "choice", choices=FORMATS_OF_ALL)
VALUE_FORMAT = Parameter("value_format", "How values become bytes, unless a record says it.", "choice", choices=FORMATS_OF_ALL)


@operations.post(
    "/topics/{topic}/records",
    "Write records",
    query=(KEY, KEY_FORMAT, VALUE_FORMAT, KEY_SCHEMA_ID, VALUE_SCHEMA_ID),
    body=NewRecords | NewRecord,
    body_media=("application/json", NDJSON, "text/plain", "application/octet-stream"),
    answer=Receipts,
    streams_in=True,
)
async def write_records(call: Call) -> Any:
    """One record or many as JSON; a stream of NDJSON of any length, answered by NDJSON while it runs; or any bytes as one value.
    Texts are keys as they are, all else is JSON, unless a format is named. The status is 200 when all are written, 207 when some
    are not: each answer has its own error then. With `value_format=schema` values are JSON here, and in the log what a schema of
    the registry makes of them: Avro (by its JSON encoding), Protobuf (by its JSON mapping), or JSON that the schema lets pass."""
    for part in ("key", "value"):
        call.query[f"{part}_encoder"] = await call.gateway.by_schema.encoder(call, part)
    call.query["by_schema"] = call.query["key_encoder"] is not None or call.query["value_encoder"] is not None
    match call.request.content_type:
        case "application/x-ndjson" | "application/ndjson":
            return await _stream(call)
        case "application/json":
            return await _write_json(call)
        case "text/plain" | "application/octet-stream":
            raw = await read_whole(call.request, call.gateway.settings.limits.body_seconds)
            key = None if call.query["key"] is None else call.query["key"].encode()
            return await _answer(call.caller, call.path("topic"), [Raw(key, raw)])
    raise Problem(
        415,
        "media_type_not_taken",
        "The body has a media type that is not taken here.",
        f"Send application/json, {NDJSON}, text/plain or application/octet-stream.",
    )


@dataclass(slots=True)
class Raw:
    """A record as bytes, on its way."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None = None
    partition: int | None = None
    timestamp: int | None = None

    @property
    def is_plain(self) -> bool:
        return self.headers is None and self.partition is None and self.timestamp is None


def raw_of(record: Any, query: dict[str, Any]) -> Raw:
    """The bytes of a record; the query has the formats of those that name none."""
    return Raw(
        _key(record.key, record.key_format, query),
        _value(record.value, record.value_format, query),
        delayed(headers_of(record.headers), record.delay_ms, record.deliver_at),
        record.partition,
        record.timestamp,
    )


def _key(key: Any, form: str | None, query: dict[str, Any]) -> bytes | None:
    if form is None and key is not None and (encoder := query.get("key_encoder")) is not None:
        return bytes(encoder(key, "key"))
    return encoded(key, form or query["key_format"] or ("text" if isinstance(key, str) else "json"), "key")


def _value(value: Any, form: str | None, query: dict[str, Any]) -> bytes | None:
    if form is None and value is not None and (encoder := query.get("value_encoder")) is not None:
        return bytes(encoder(value, "value"))
    return encoded(value, form or query["value_format"] or "json", "value")


async def _write_json(call: Call) -> Any:
    raw = await read_whole(call.request, call.gateway.settings.limits.body_seconds)
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"The body is not JSON (line {error.lineno}, column {error.colno}).") from None
    if isinstance(found, dict) and "records" in found:
        wanted = read(NewRecords, found).records
        return await _answer(call.caller, call.path("topic"), [raw_of(each, call.query) for each in wanted])
    return await _answer(call.caller, call.path("topic"), [raw_of(read(NewRecord, found), call.query)])


async def _answer(caller: Caller, topic: str, records: list[Raw]) -> Reply:
    """One error for all of them is the answer's own status: nothing was written, and there is one thing to mend."""
    written = await write(caller, topic, records)
    failed = [each.error for each in written if each.error is not None]
    if len(failed) == len(written) and len({error["code"] for error in failed}) == 1:
        first = failed[0]
        raise Problem(
            first["status"],
            first["code"],
            first["detail"],
            first["advice"],
            more={"records": written} if len(written) > 1 else {},
        )
    return Reply(Receipts(written), status=207 if failed else 200)


async def write(caller: Caller, topic: str, records: list[Raw]) -> list[Receipt]:
    """Hand records over, and wait for all of them."""
    return await _write_to(caller, topic, records, await _why_not(caller, topic))


async def _write_to(caller: Caller, topic: str, records: list[Raw], why_not: HeadraceError | None) -> list[Receipt]:
    if why_not is not None:
        return [_receipt(why_not)] * len(records)
    if all(record.is_plain for record in records) and len(records) > 1:
        return await _write_plain(caller, topic, records)
    pending: list[Any] = []
    for record in records:
        try:
            pending.append(
                await caller.producer.enqueue(
                    topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp=record.timestamp,
                )
            )
        except HeadraceError as error:
            pending.append(error)
    waited = [each for each in pending if isinstance(each, asyncio.Future)]
    results = iter(await asyncio.gather(*waited, return_exceptions=True))
    return [_receipt(next(results) if isinstance(each, asyncio.Future) else each) for each in pending]


async def _why_not(caller: Caller, topic: str) -> HeadraceError | None:
    """Why nothing can be written to a topic; None where it can, or may be in time."""
    try:
        await _require(caller, topic)
    except BrokerTimeout:
        return None  # librdkafka tries for longer
    except HeadraceError as error:
        return error
    return None


async def _require(caller: Caller, topic: str) -> None:
    """Raises where there is no such topic, and none comes to be by being named; librdkafka would look for half a minute."""
    deadline = asyncio.get_running_loop().time() + TOPIC_S
    while True:
        try:
            await caller.cluster.leaders(topic, make=True)
            return
        except TopicNotFound:
            if asyncio.get_running_loop().time() > deadline:
                raise
        except BrokerError as error:
            if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise InvalidArgument("the topic's name is none: 1 to 249 letters, digits, '.', '_' and '-'") from None
            if not error.retriable:
                raise
            return
        await asyncio.sleep(AGAIN_S)


async def _write_plain(caller: Caller, topic: str, records: list[Raw]) -> list[Receipt]:
    """The cheap way, of those that have only keys and values.  Where some fail, it is said of all which those are."""
    keys = [record.key for record in records] if any(record.key is not None for record in records) else None
    try:
        found = await caller.producer.send_many(topic, [record.value for record in records], keys=keys)
    except BatchFailed as error:
        if error.delivered:
            return _partly(error, len(records))
        return [_receipt(each) for each in error.failures]
    except HeadraceError as error:
        return [_receipt(error)] * len(records)
    return [Receipt(each.partition, each.offset, each.timestamp) for each in found]


def _partly(error: BatchFailed, count: int) -> list[Receipt]:
    """The SDK does not say which of a batch failed; no record is called written that may not be."""
    unsure = Problem(
        503, "partly_written", str(error), "Read the topic's end, or send all again: none of these is known to be written."
    ).document()
    return [Receipt(error=unsure)] * count


def _receipt(found: Any) -> Receipt:
    if isinstance(found, Delivery):
        return Receipt(found.partition, found.offset, found.timestamp)
    if isinstance(found, BaseException) and not isinstance(found, Exception):
        raise found
    return Receipt(error=problem_of(found).document())


# A stream


async def _stream(call: Call) -> web.StreamResponse:
    """NDJSON in and out: line by line where each record is, in order.  What is on its way is bounded, so that a stream that is
    faster than the brokers is slowed down."""
    response = web.StreamResponse(headers={"Content-Type": NDJSON})
    response.enable_chunked_encoding()
    await response.prepare(call.request)
    topic = call.path("topic")
    pending: list[asyncio.Task[list[Receipt]]] = []
    try:
        async for records in _batches(call):
            if isinstance(records, Problem):
                await _flush(response, pending, 0)
                await response.write(orjson.dumps({"error": records.document()}) + b"\n")
                break
            # One after the other: a part that waited for the topic beside the next one would come after it.
            why_not = await _why_not(call.caller, topic)
            writing = _write_some(call.caller, topic, records, why_not)
            pending.append(call.gateway.tasks.spawn(writing, "write a part of a stream"))
            await _flush(response, pending, STREAM_BATCHES)
        await _flush(response, pending, 0)
    finally:
        for task in pending:
            task.cancel()
    await response.write_eof()
    return response


async def _write_some(caller: Caller, topic: str, records: list[Raw | Problem], why_not: HeadraceError | None) -> list[Receipt]:
    good = [each for each in records if isinstance(each, Raw)]
    written = iter(await _write_to(caller, topic, good, why_not) if good else [])
    return [next(written) if isinstance(each, Raw) else Receipt(error=each.document()) for each in records]


async def _flush(response: web.StreamResponse, pending: list[asyncio.Task[list[Receipt]]], left: int) -> None:
    while len(pending) > left:
        lines = [_line(each) for each in await pending[0]]
        del pending[0]
        await response.write(b"".join(lines))


def _line(written: Receipt) -> bytes:
    if written.error is None:
        return b'{"partition":%d,"offset":%d}\n' % (
            -1 if written.partition is None else written.partition,
            -1 if written.offset is None else written.offset,
        )
    return orjson.dumps({"error": written.error}) + b"\n"


async def _batches(call: Call) -> AsyncIterator[list[Raw | Problem] | Problem]:
    """Lines as they come, some thousand at a time; what has come is not kept waiting for more."""
    limits = call.gateway.settings.limits
    rest = b""
    content = call.request.content
    while True:
        try:
            async with asyncio.timeout(limits.body_seconds):
                piece = await content.readany()
        except TimeoutError:
            yield Problem(408, "body_too_slow", "Nothing came for too long.", "Send the rest in another stream.")
            return
        if not piece:
            break
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            yield body_too_large()
            return
        for start in range(0, len(lines), STREAM_RECORDS):
            if records := [_raw(line, call.query) for line in lines[start : start + STREAM_RECORDS] if line.strip()]:
                yield records
    if rest.strip():
        yield [_raw(rest, call.query)]


_PLAIN_FIELDS: Final = frozenset({"key", "value"})


def _raw(line: bytes, query: dict[str, Any]) -> Raw | Problem:
    """A line of a stream.  One that is wrong costs itself, and not the stream."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return bad_request("The line is not JSON.")
    try:
        if isinstance(found, dict) and found.keys() <= _PLAIN_FIELDS:
            # Most have no more than this: a shape for each would cost more than the rest together.
            key, value = found.get("key"), found.get("value")
            if query["by_schema"]:
                return Raw(_key(key, None, query), _value(value, None, query))
            key_format = query["key_format"] or ("text" if isinstance(key, str) else "json")
            return Raw(encoded(key, key_format, "key"), encoded(value, query["value_format"] or "json", "value"))
        return raw_of(read(NewRecord, found, "the line"), query)
    except Problem as problem:
        return problem
