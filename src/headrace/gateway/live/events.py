"""Server-sent events: a topic as it grows, for browsers.  A reader that comes back goes on after the last event it saw.

An event's id is where each partition goes on after it, so that any gateway can go on from there.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson
from aiohttp import web

from headrace.client.errors import HeadraceError
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter
from headrace.gateway.brokers.reader import Readers
from headrace.gateway.brokers.tails import Shown
from headrace.gateway.records.by_schema import shown_as
from headrace.gateway.records.consume import FROM, ISOLATION, PARTITION, starting_positions
from headrace.gateway.records.formats import SHOW_KEYS, SHOW_VALUES, Form, rendered
from headrace.gateway.serving.problems import bad_request, problem_of

operations = Operations("live")

HEARTBEAT_MS: Final = Parameter(
    "heartbeat_ms", "How often a comment is sent while nothing else is.", "number", default=15_000, minimum=100, maximum=60_000
)
BEGIN: Final = Parameter("from", f"{FROM.description} Last-Event-ID counts more.", default="latest")
RETRY_MS: Final = 1000
RECORDS_MAX: Final = 500
BYTES_MAX: Final = 256 * 1024


@operations.get(
    "/topics/{topic}/events",
    "Watch a topic",
    query=(PARTITION, BEGIN, ISOLATION, HEARTBEAT_MS, SHOW_KEYS, SHOW_VALUES),
    answer_media="text/event-stream",
)
async def watch_topic(call: Call) -> web.StreamResponse:
    """Server-sent events. Each event is a record as GET …/records shows it; `Last-Event-ID` goes on after the event that it
    names. A reader that is slow is slowed down: nothing is kept for it here, and it reads from the log when it comes to it."""
    cluster, topic = call.caller.cluster, call.path("topic")
    keys, values = await shown_as(call, "keys"), await shown_as(call, "values")
    positions = await starting_positions(cluster, topic, {**call.query, "cursor": None})
    if (seen := call.request.headers.get("Last-Event-ID")) is not None:
        # Partitions that have come to be since are read from their beginning.
        positions = dict.fromkeys(positions, 0) | _read_id(seen, positions)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    response.enable_chunked_encoding()
    await response.prepare(call.request)
    readers = Readers(cluster, topic, positions, call.query["isolation"])
    try:
        await response.write(b"retry: %d\nid: %s\n\n" % (RETRY_MS, _id(readers.positions)))
        await _send_all(call, response, readers, keys, values)
    except HeadraceError as error:
        await response.write(b"event: problem\ndata: " + orjson.dumps(problem_of(error).document()) + b"\n\n")
    except (ConnectionError, TimeoutError):
        pass  # it has gone, or does not read
    finally:
        readers.close()
    return response


async def _send_all(call: Call, response: web.StreamResponse, readers: Readers, keys: Form, values: Form) -> None:
    patience, heartbeat = call.gateway.settings.limits.body_seconds, call.query["heartbeat_ms"] / 1000
    ids = readers.positions
    while not call.gateway.is_stopping:
        found = await readers.read(records_max=RECORDS_MAX, bytes_max=BYTES_MAX, wait_s=heartbeat)
        await call.gateway.by_schema.prepare(found, keys, values)
        data = b"".join(_event(each, ids, keys, values) for each in found) or b":\n\n"
        async with asyncio.timeout(patience):
            await response.write(data)


def _event(shown: Shown, ids: dict[int, int], keys: Form, values: Form) -> bytes:
    ids[shown.place.partition] = shown.record.offset + 1
    return b"id: %s\ndata: %s\n\n" % (_id(ids), rendered(shown, keys, values))


def _id(positions: dict[int, int]) -> bytes:
    return ",".join([f"{partition}:{offset}" for partition, offset in positions.items()]).encode()


def _read_id(text: str, known: dict[int, Any]) -> dict[int, int]:
    try:
        pairs = [part.split(":") for part in text.split(",")]
        found = {int(partition): int(offset) for partition, offset in pairs}
    except ValueError:
        found = {-1: -1}
    if any(partition < 0 or not 0 <= offset < 2**63 for partition, offset in found.items()):
        raise bad_request("Last-Event-ID is not the id of an event of this topic.", "Leave it out to begin at `from`.")
    return {partition: offset for partition, offset in found.items() if partition in known}
