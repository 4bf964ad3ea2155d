"""WebSocket: subscribe, produce and acknowledge on one connection.

A subscription sends as many records as its client has given credits for, and then waits: whoever is slow is slowed, and nothing
is kept for them here.  Messages are JSON objects with a `type`, and with an `id` that the client chooses and answers repeat.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import orjson
from aiohttp import WSMsgType, web

from headrace.client.errors import HeadraceError
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.gateway.api.shapes import described, read
from headrace.gateway.brokers.group_offsets import commit, committed
from headrace.gateway.brokers.reader import Readers
from headrace.gateway.records.consume import starting_positions
from headrace.gateway.records.formats import document
from headrace.gateway.records.produce import NewRecord, raw_of, write
from headrace.gateway.serving.problems import Problem, bad_request, problem_of
from headrace.gateway.serving.tasks import Tasks

operations = Operations("live")

HEARTBEAT_S: Final = 20.0
SUBSCRIPTIONS_MAX: Final = 100
WRITES_MAX: Final = 16  # under way at once; then the socket is not read
BATCH_RECORDS: Final = 200
BYTES_MAX: Final = 256 * 1024
WAIT_S: Final = 30.0
CREDITS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Records from a topic, `credits` of them at first."""

    type: str
    id: Annotated[str, described("Chosen by the client.", minLength=1, maxLength=128)]
    topic: Annotated[str, described("The topic.", minLength=1, maxLength=249)]
    credits: Annotated[int, described("How many records may be sent.", minimum=0, maximum=CREDITS_MAX)] = 100
    partition: Annotated[int | None, described("Only this one.", minimum=0)] = None
    begin: Annotated[str | None, described("earliest, latest, an ISO timestamp; with partition an offset.", minLength=1)] = None
    group: Annotated[str | None, described("Begin where it has acknowledged up to.", minLength=1, maxLength=249)] = None
    isolation: Annotated[str, described("", enum=["read_committed", "read_uncommitted"])] = "read_uncommitted"
    keys: str = "auto"
    values: str = "auto"


@dataclass(frozen=True, slots=True)
class Credit:
    """More records may be sent."""

    type: str
    id: str
    credits: Annotated[int, described("How many more.", minimum=1, maximum=CREDITS_MAX)]


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """All records of a partition up to an offset are done with: the group goes on after it."""

    type: str
    id: str
    partition: Annotated[int, described("The partition.", minimum=0)]
    offset: Annotated[int, described("The last one that is done with.", minimum=0)]


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """No more records."""

    type: str
    id: str


@dataclass(frozen=True, slots=True)
class Produce:
    """Records to write."""

    type: str
    id: Annotated[str, described("Chosen by the client.", minLength=1, maxLength=128)]
    topic: Annotated[str, described("The topic.", minLength=1, maxLength=249)]
    records: Annotated[list[NewRecord], described("In order.", minItems=1, maxItems=10_000)]


SHAPES: Final[dict[str, Any]] = {
    "subscribe": Subscribe,
    "credit": Credit,
    "acknowledge": Acknowledge,
    "unsubscribe": Unsubscribe,
    "produce": Produce,
}


@operations.get("/ws", "Subscribe, produce and acknowledge on a WebSocket", answer_media="application/octet-stream", listed=False)
async def converse(call: Call) -> web.StreamResponse:
    origin = call.request.headers.get("Origin")
    if origin is not None and not call.gateway.allows_origin(origin, call.request.host):
        raise Problem(403, "origin_not_allowed", "Pages of this origin may not call here.", "Name it with --cors-origin.")
    socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=call.gateway.settings.limits.body_bytes_max)
    if not socket.can_prepare(call.request):
        raise Problem(426, "upgrade_needed", "This is a WebSocket.", "Connect with ws://.", headers={"Upgrade": "websocket"})
    await socket.prepare(call.request)
    conversation = Conversation(call, socket)
    try:
        await conversation.listen()
    finally:
        await conversation.close()
    return socket


@dataclass(slots=True)
class Subscription:
    """What one `subscribe` began."""

    wanted: Subscribe
    credits: int
    more: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[Any] | None = None


class Conversation:
    """One WebSocket."""

    def __init__(self, call: Call, socket: web.WebSocketResponse) -> None:
        self._call = call
        self._socket = socket
        self._tasks = Tasks()
        self._subscriptions: dict[str, Subscription] = {}
        self._writes = asyncio.Semaphore(WRITES_MAX)

    async def listen(self) -> None:
        self._tasks.spawn(self._end_with_gateway(), "end a WebSocket with its gateway")
        async for message in self._socket:
            if message.type is not WSMsgType.TEXT:
                await self._say_problem(None, bad_request("Messages are JSON texts."))
                continue
            identifier = None
            try:
                found = _message(message.data)
                identifier = found.id
                await self._take(found)
            except (Problem, HeadraceError) as error:
                await self._say_problem(identifier, error)

    async def close(self) -> None:
        await self._tasks.close()

    async def _end_with_gateway(self) -> None:
        await self._call.gateway.stopping.wait()
        await self._socket.close(code=1001, message=b"the gateway stops")

    async def _take(self, found: Any) -> None:
        match found:
            case Produce():
                await self._writes.acquire()
                self._tasks.spawn(self._write(found), "write what came by WebSocket")
            case Subscribe():
                await self._subscribe(found)
            case Credit():
                subscription = self._subscription(found.id)
                subscription.credits = min(CREDITS_MAX, subscription.credits + found.credits)
                subscription.more.set()
            case Acknowledge():
                await self._acknowledge(found)
            case Unsubscribe():
                subscription = self._subscriptions.pop(self._subscription(found.id).wanted.id)
                if subscription.task is not None:
                    subscription.task.cancel()
                await self._say({"type": "unsubscribed", "id": found.id})

    def _subscription(self, identifier: str) -> Subscription:
        if identifier not in self._subscriptions:
            raise bad_request("There is no subscription with this id.", "Send subscribe first.")
        return self._subscriptions[identifier]

    async def _write(self, wanted: Produce) -> None:
        try:
            formats = {"key_format": None, "value_format": None}
            receipts = await write(self._call.caller, wanted.topic, [raw_of(each, formats) for each in wanted.records])
            await self._say({"type": "produced", "id": wanted.id, "records": receipts})
        except (Problem, HeadraceError) as error:
            await self._say_problem(wanted.id, error)
        except ConnectionError:
            pass  # nobody hears it
        finally:
            self._writes.release()

    async def _subscribe(self, wanted: Subscribe) -> None:
        if wanted.id in self._subscriptions:
            raise bad_request("There is a subscription with this id.", "Choose another id.")
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            raise bad_request(f"There are {SUBSCRIPTIONS_MAX} subscriptions on this connection.", "Open another connection.")
        positions = await self._positions(wanted)
        subscription = self._subscriptions[wanted.id] = Subscription(wanted, wanted.credits)
        await self._say({"type": "subscribed", "id": wanted.id, "positions": {str(each): at for each, at in positions.items()}})
        subscription.task = self._tasks.spawn(self._send(subscription, positions), "send records by WebSocket")

    async def _positions(self, wanted: Subscribe) -> dict[int, int]:
        cluster = self._call.caller.cluster
        query = {
            "partition": wanted.partition,
            "from": wanted.begin or ("latest" if wanted.group is None else "earliest"),
            "isolation": wanted.isolation,
        }
        positions = await starting_positions(cluster, wanted.topic, query)
        if wanted.group is not None and wanted.begin is None:
            positions |= await committed(cluster, wanted.group, wanted.topic, list(positions))
        return positions

    async def _send(self, subscription: Subscription, positions: dict[int, int]) -> None:
        wanted = subscription.wanted
        isolation: Any = wanted.isolation
        readers = Readers(self._call.caller.cluster, wanted.topic, positions, isolation)
        try:
            while True:
                while not subscription.credits:
                    subscription.more.clear()
                    await subscription.more.wait()
                limit = min(subscription.credits, BATCH_RECORDS)
                found = await readers.read(records_max=limit, bytes_max=BYTES_MAX, wait_s=WAIT_S)
                if found:
                    subscription.credits -= len(found)
                    records = [document(each, wanted.keys, wanted.values) for each in found]
                    await self._say({"type": "records", "id": wanted.id, "credits": subscription.credits, "records": records})
        except HeadraceError as error:
            self._subscriptions.pop(wanted.id, None)
            await self._say_problem(wanted.id, error)
        except ConnectionError:
            pass  # it has gone
        finally:
            readers.close()

    async def _acknowledge(self, found: Acknowledge) -> None:
        wanted = self._subscription(found.id).wanted
        if wanted.group is None:
            raise bad_request("This subscription has no group to acknowledge for.", "Subscribe with a group.")
        await commit(self._call.caller.cluster, wanted.group, wanted.topic, {found.partition: found.offset + 1})
        await self._say({"type": "acknowledged", "id": found.id, "partition": found.partition, "offset": found.offset})

    async def _say(self, message: dict[str, Any]) -> None:
        # Waits while the client does not read: its subscriptions wait with it.
        await self._socket.send_str(orjson.dumps(message).decode())

    async def _say_problem(self, identifier: str | None, error: Exception) -> None:
        await self._say({"type": "problem", "id": identifier, "problem": problem_of(error).document()})


def _message(text: str) -> Any:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise bad_request("The message is not JSON.") from None
    kind = found.get("type") if isinstance(found, dict) else None
    if not isinstance(kind, str) or kind not in SHAPES:
        raise bad_request(f"The message has no known type; known: {', '.join(SHAPES)}.")
    return read(SHAPES[kind], found, "the message")
