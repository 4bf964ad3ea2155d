"""Reading records without any state here: from an offset, a time, or a cursor that the answer before gave."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Any, Final

import orjson
from aiohttp import web

from headrace.client.brokers.cluster import EARLIEST, LATEST, Cluster, Isolation
from headrace.client.positions import parse_position
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter
from headrace.gateway.api.shapes import described
from headrace.gateway.brokers.reader import Readers
from headrace.gateway.records.by_schema import shown_as
from headrace.gateway.records.formats import SHOW_KEYS, SHOW_VALUES, document, rendered
from headrace.gateway.records.produce import NDJSON
from headrace.gateway.serving.problems import bad_request
from headrace.model.identity import TopicPartition

operations = Operations("records")

ISOLATION: Final = Parameter(
    "isolation",
    "read_committed leaves out what transactions have not committed.",
    "choice",
    default="read_uncommitted",
    choices=("read_committed", "read_uncommitted"),
)
PARTITION: Final = Parameter("partition", "Only this partition.", "number", maximum=2**31 - 1)
FROM: Final = Parameter(
    "from", "Where to begin: earliest, latest, an ISO timestamp, or, with partition, an offset.", default="earliest"
)
CURSOR: Final = Parameter("cursor", "The `next` of the answer before; it counts more than from.")
LIMIT: Final = Parameter("limit", "How many records at most.", "number", default=500, minimum=1, maximum=10_000)
BYTES: Final = Parameter(
    "bytes",
    "How many bytes of keys and values at most, about.",
    "number",
    default=1024 * 1024,
    minimum=1,
    maximum=16 * 1024 * 1024,
)
WAIT: Final = Parameter("wait_ms", "How long to wait where there is nothing yet.", "number", default=0, maximum=60_000)


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    key_format: Annotated[str | None, described("json, text, schema, binary (base64), or null where there is no key.")]
    value: Any
    value_format: Annotated[str | None, described("json, text, schema, binary (base64), or null where there is no value.")]
    headers: list[Any]


@dataclass(frozen=True, slots=True)
class Read:
    """Records in the order of each partition, and where the next read begins."""

    records: list[ReadRecord]
    next: str


@operations.get(
    "/topics/{topic}/records",
    "Read records",
    query=(PARTITION, FROM, CURSOR, LIMIT, BYTES, WAIT, ISOLATION, SHOW_KEYS, SHOW_VALUES),
    answer=Read,
)
async def read_records(call: Call) -> Any:
    """Answers with what is there, or waits for it. `next` is where the following read begins: nothing is kept here. With
    `Accept: application/x-ndjson` each record is a line, and the cursor is the header `Headrace-Next`."""
    cluster, topic = call.caller.cluster, call.path("topic")
    keys, values = await shown_as(call, "keys"), await shown_as(call, "values")
    positions = await starting_positions(cluster, topic, call.query)
    isolation: Isolation = call.query["isolation"]
    readers = Readers(cluster, topic, positions, isolation)
    try:
        wait_s = 0.0 if call.gateway.is_stopping else call.query["wait_ms"] / 1000
        found = await readers.read(records_max=call.query["limit"], bytes_max=call.query["bytes"], wait_s=wait_s)
        following = cursor_of(readers.positions)
    finally:
        readers.close()
    await call.gateway.by_schema.prepare(found, keys, values)
    if NDJSON in call.request.headers.get("Accept", ""):
        lines = b"".join(rendered(each, keys, values) + b"\n" for each in found)
        return web.Response(body=lines, content_type=NDJSON, headers={"Headrace-Next": following})
    body = orjson.dumps({"records": [document(each, keys, values) for each in found], "next": following})
    return web.Response(body=body, content_type="application/json")


# Where to begin


async def starting_positions(cluster: Cluster, topic: str, query: dict[str, Any]) -> dict[int, int]:
    """The offset at which each partition is read first."""
    partitions = await cluster.leaders(topic)
    wanted = sorted(partitions) if query["partition"] is None else [query["partition"]]
    if wanted[0] not in partitions:
        await cluster.leader(TopicPartition(topic, wanted[0]))  # which says that it is not there
    if query.get("cursor") is not None:
        given = read_cursor(query["cursor"])
        known = {each: given[each] for each in wanted if each in given}
        # Partitions that came to be since then are read from their beginning.
        return {**dict.fromkeys(wanted, 0), **known}
    return await positions_at(cluster, topic, query["from"], wanted, query["isolation"])


async def positions_at(cluster: Cluster, topic: str, where: str, partitions: list[int], isolation: Isolation) -> dict[int, int]:
    position = parse_position(where)
    match position.kind:
        case "offset" if len(partitions) != 1:
            raise bad_request("An offset is of one partition: name it with partition.")
        case "offset":
            return {partitions[0]: position.number}
        case "earliest":
            return await cluster.offsets(topic, EARLIEST, partitions=partitions)
        case "latest":
            return await cluster.offsets(topic, LATEST, isolation, partitions=partitions)
    found = await cluster.offsets(topic, position.number, partitions=partitions)
    beyond = [partition for partition, offset in found.items() if offset < 0]
    return {**found, **await cluster.offsets(topic, LATEST, isolation, partitions=beyond)}


def cursor_of(positions: dict[int, int]) -> str:
    """Positions as a text for a URL."""
    text = ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(text: str) -> dict[int, int]:
    """What `cursor_of` gave.  Raises a Problem for anything else."""
    try:
        plain = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        pairs = [part.split(":") for part in plain.split(",") if part]
        found = {int(partition): int(offset) for partition, offset in pairs}
    except (ValueError, binascii.Error):
        raise bad_request("The cursor is not one that an answer gave.", "Take it from `next`, as it is.") from None
    if any(partition < 0 or not 0 <= offset < 2**63 for partition, offset in found.items()):
        raise bad_request("The cursor is not one that an answer gave.", "Take it from `next`, as it is.")
    return found
