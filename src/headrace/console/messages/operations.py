"""Messages over HTTP: a search with a cursor, and what comes live."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson
from aiohttp import web

from headrace.client.brokers.cluster import LATEST
from headrace.client.errors import HeadraceError
from headrace.console.messages.decoding import Decoder
from headrace.console.messages.search import Filter, Found, Search
from headrace.console.reach import console_of
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter
from headrace.gateway.brokers.reader import Readers
from headrace.gateway.live.events import HEARTBEAT_MS
from headrace.gateway.records.consume import ISOLATION, PARTITION, cursor_of, positions_at, read_cursor
from headrace.gateway.serving.problems import bad_request, problem_of

operations = Operations("console messages")

FROM: Final = Parameter("from", "newest, earliest, an ISO timestamp, or with partition an offset.", default="newest")
CURSOR: Final = Parameter("cursor", "The `next` of the answer before.")
LIMIT: Final = Parameter("limit", "How many to find.", "number", default=50, minimum=1, maximum=1000)
TEXT: Final = Parameter("text", "Something in the key, the value or a header.")
WHERE: Final = Parameter("where", "An expression, such as value.total > 10.")
RAW: Final = Parameter("raw", "Whether to answer with the bytes, too.", "boolean", default=False)
AFTER: Final = Parameter("after", "The id of the last event that was seen.")
LIVE_MAX: Final = 200


@operations.get(
    "/console/api/topics/{topic}/messages",
    "Look for messages",
    query=(PARTITION, FROM, CURSOR, LIMIT, TEXT, WHERE, RAW, ISOLATION),
    listed=False,
)
async def find_messages(call: Call) -> dict[str, Any]:
    query, cluster, topic = call.query, call.caller.cluster, call.path("topic")
    decoder = Decoder(call.gateway, call.caller, console_of(call).hiding)
    search = Search(cluster, topic, decoder, Filter(query["text"], query["where"]), query["isolation"], query["raw"])
    backwards = query["from"] == "newest"
    positions = await _positions(call, backwards)
    found = await (search.backwards if backwards else search.forwards)(positions, query["limit"])
    return _answer(found)


async def _positions(call: Call, backwards: bool) -> dict[int, int]:
    query, cluster, topic = call.query, call.caller.cluster, call.path("topic")
    partitions = sorted(await cluster.leaders(topic))
    if query["partition"] is not None:
        if query["partition"] not in partitions:
            raise bad_request(f"The topic has no partition {query['partition']}.", "Choose one that there is.")
        partitions = [query["partition"]]
    if query["cursor"] is not None:
        given = read_cursor(query["cursor"])
        return {each: given[each] for each in partitions if each in given}
    if backwards:
        return await cluster.offsets(topic, LATEST, query["isolation"], partitions=partitions)
    return await positions_at(cluster, topic, query["from"], partitions, query["isolation"])


def _answer(found: Found) -> dict[str, Any]:
    return {
        "records": found.records,
        "next": cursor_of(found.positions) if found.more else None,
        "looked_at": found.looked_at,
    }


@operations.get(
    "/console/api/topics/{topic}/live",
    "Watch messages",
    query=(PARTITION, TEXT, WHERE, ISOLATION, HEARTBEAT_MS, AFTER),
    answer_media="text/event-stream",
    listed=False,
)
async def watch_messages(call: Call) -> web.StreamResponse:
    """Server-sent events; each has some records.  What comes faster than anybody can read is left out, and counted.  An event's
    id is where the next one begins, so that nothing is missed by who comes back."""
    query, cluster, topic = call.query, call.caller.cluster, call.path("topic")
    wanted = Filter(query["text"], query["where"])
    partitions = sorted(await cluster.leaders(topic)) if query["partition"] is None else [query["partition"]]
    positions = await cluster.offsets(topic, LATEST, query["isolation"], partitions=partitions)
    if (seen := call.request.headers.get("Last-Event-ID") or query["after"]) is not None:
        positions |= {each: offset for each, offset in read_cursor(seen).items() if each in positions}
    decoder = Decoder(call.gateway, call.caller, console_of(call).hiding)
    response = await stream(call)
    readers = Readers(cluster, topic, positions, query["isolation"])
    try:
        while not call.gateway.is_stopping:
            some = await readers.read(records_max=1000, bytes_max=1024 * 1024, wait_s=query["heartbeat_ms"] / 1000)
            documents = [document for each in some if wanted.matches(document := await decoder.document(each), each)]
            data = {"records": documents[-LIVE_MAX:], "left_out": max(0, len(documents) - LIVE_MAX)}
            await send(call, response, data if documents else None, cursor_of(readers.positions))
    except HeadraceError as error:
        await response.write(b"event: problem\ndata: " + orjson.dumps(problem_of(error).document()) + b"\n\n")
    except (ConnectionError, TimeoutError):
        pass  # it has gone, or does not read
    finally:
        readers.close()
    return response


async def stream(call: Call) -> web.StreamResponse:
    """The beginning of server-sent events."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    response.enable_chunked_encoding()
    await response.prepare(call.request)
    await response.write(b"retry: 1000\n\n")
    return response


async def send(call: Call, response: web.StreamResponse, data: Any, position: str | None = None) -> None:
    """One event, or a comment where there is nothing to say."""
    place = b"" if position is None else b"id: %s\n" % position.encode()
    async with asyncio.timeout(call.gateway.settings.limits.body_seconds):
        await response.write(b":\n\n" if data is None else place + b"data: " + orjson.dumps(data) + b"\n\n")
