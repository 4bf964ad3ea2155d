"""Faults on demand: what a broker does to a client on a bad day, when a test asks for it.

    with broker.faults.on(Api.PRODUCE, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=2):
        producer.send("orders", "x").result()

A fault stands between a connection and the broker.  `error` and `disconnect` keep the request from being carried out; `delay` and
`drop_reply` let it be carried out and hold the answer, so that what a client cannot know is what really happened.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headrace.broker.network.connection import Connection
from headrace.broker.network.pending_reply import PendingReply
from headrace.host.disk import Buffer
from headrace.model.errors import ErrorCode
from headrace.testing.error_replies import error_reply, with_errors
from headrace.wire.apis import ApiKey as Api
from headrace.wire.apis import messages_of
from headrace.wire.codec import decode, encode
from headrace.wire.framing import RequestHeader, read_request_header, response_header

if TYPE_CHECKING:
    from headrace.broker.app import Broker as RealBroker

logger = logging.getLogger(__name__)

__all__ = ["Api", "Fault", "Faults"]

Start = Callable[[Buffer, Connection, PendingReply], None]
# A client that is told of no brokers has nowhere to go: these replies are made as always, and then their errors are changed.
ANSWERED_FIRST = frozenset({Api.METADATA, Api.API_VERSIONS})


class Fault:
    """One thing that goes wrong.  As a `with` block it ends with the block; `hits` counts how often it has struck."""

    def __init__(
        self,
        faults: "Faults",
        api: Api,
        *,
        error: ErrorCode | None,
        delay: float,
        drop_reply: bool,
        disconnect: bool,
        times: int | None,
        client_id: str | None,
    ) -> None:
        self.api = api
        self.error = error
        self.delay = delay
        self.drop_reply = drop_reply
        self.disconnect = disconnect
        self.hits = 0
        self._times = times
        self._client_id = client_id
        self._faults = faults
        self._struck = threading.Event()

    def strikes(self, header: RequestHeader) -> bool:
        """Whether this request is one to go wrong; it is counted."""
        if header.api_key != self.api or (self._client_id is not None and header.client_id != self._client_id):
            return False
        if self._times is not None and self.hits >= self._times:
            return False
        self.hits += 1
        self._struck.set()
        return True

    def wait(self, timeout: float = 10.0) -> bool:
        """Until it has struck once."""
        return self._struck.wait(timeout)

    def remove(self) -> None:
        """It strikes no more."""
        self._faults.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()


class Faults:
    """The faults of one broker.  They outlast its restarts."""

    def __init__(self) -> None:
        # Replaced as a whole, never changed: the broker's thread goes through it while a test adds to it.
        self._active: tuple[Fault, ...] = ()
        self._lock = threading.Lock()

    def on(
        self,
        api: Api,
        *,
        error: ErrorCode | None = None,
        delay: float = 0.0,
        drop_reply: bool = False,
        disconnect: bool = False,
        times: int | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Let requests of one API go wrong until the fault is removed, or its `with` block ends.

        Args:
            api: Which requests.
            error: Refuse with this error code, and do nothing.
            delay: Answer so many seconds later; also an error.
            drop_reply: Do the work, and never answer.
            disconnect: End the connection, and do nothing.
            times: Only the next so many.
            client_id: Only those of clients that call themselves so.
        """
        _check(api, error, delay, times)
        if sum((error is not None, drop_reply, disconnect)) > 1 or not (
            error is not None or drop_reply or disconnect or delay > 0
        ):
            raise ValueError("a fault is one of error=…, delay=…, drop_reply=True, disconnect=True; delay also goes with error")
        fault = Fault(
            self, api, error=error, delay=delay, drop_reply=drop_reply, disconnect=disconnect, times=times, client_id=client_id
        )
        with self._lock:
            self._active = (*self._active, fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """This one strikes no more."""
        with self._lock:
            self._active = tuple(each for each in self._active if each is not fault)

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._active = ()

    def install(self, broker: "RealBroker") -> None:
        """Stand between a broker's connections and its dispatch."""
        honest = broker.server.start

        def start(frame: Buffer, connection: Connection, reply: PendingReply) -> None:
            if self._active:
                self._start(broker, honest, frame, connection, reply)
            else:
                honest(frame, connection, reply)

        broker.server.start = start

    def _start(self, broker: "RealBroker", honest: Start, frame: Buffer, connection: Connection, reply: PendingReply) -> None:
        header, position = read_request_header(frame)
        fault = next((each for each in self._active if each.strikes(header)), None)
        if fault is None:
            honest(frame, connection, reply)
        elif fault.disconnect:
            connection.close("a fault was asked for")
        elif fault.error is None:
            honest(frame, connection, HeldReply(reply, broker.loop, None if fault.drop_reply else fault.delay))
        else:
            broker.spawn(self._refuse(broker, fault, frame, header, position, reply, connection))

    async def _refuse(
        self,
        broker: "RealBroker",
        fault: Fault,
        frame: Buffer,
        header: RequestHeader,
        position: int,
        reply: PendingReply,
        connection: Connection,
    ) -> None:
        assert fault.error is not None
        try:
            request = decode(messages_of(Api(header.api_key)).request, frame, header.api_version, position, exact=False)
            response = await _refusal(broker, request, header, connection, fault.error)
            await asyncio.sleep(fault.delay)
        except Exception:
            # A test that waits for a refusal should see why there is none, and not hang.
            logger.exception("cannot refuse %s with %s", Api(header.api_key).name, fault.error.name)
            reply.abandon("the fault that was asked for cannot be made")
            return
        if header.api_key == Api.PRODUCE and request.acks == 0:
            reply.skip()
        else:
            start = response_header(header.api_key, header.api_version, header.correlation_id)
            reply.send((start, encode(response, header.api_version)))


async def _refusal(broker: "RealBroker", request: Any, header: RequestHeader, connection: Connection, error: ErrorCode) -> Any:
    if header.api_key in ANSWERED_FIRST:
        return with_errors(await _answer(broker, request, header, connection), error)
    return error_reply(messages_of(Api(header.api_key)).response, request, error)


async def _answer(broker: "RealBroker", request: Any, header: RequestHeader, connection: Connection) -> Any:
    """What the broker really answers."""
    from headrace.broker.network.dispatch import RequestContext

    handler = broker.dispatcher.routes[header.api_key].handler
    assert handler is not None
    context = RequestContext(header.api_key, header.api_version, header.correlation_id, header.client_id, connection)
    answer = handler(request, context)
    return await answer if isawaitable(answer) else answer


class HeldReply(PendingReply):
    """A reply that is sent later, or never.  Those behind it on the connection wait, as the protocol has it."""

    __slots__ = ("_delay", "_loop", "_real")

    def __init__(self, real: PendingReply, loop: asyncio.AbstractEventLoop, delay: float | None) -> None:
        super().__init__(real.connection)
        self._real = real
        self._loop = loop
        self._delay = delay

    def send(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = buffers
        self.let_go()
        if self._delay is not None:
            self._loop.call_later(self._delay, self._real.send, buffers)

    def skip(self) -> None:
        self.send(())

    def when_at_head(self, action: Callable[[], None]) -> None:
        self._real.when_at_head(action)

    def abandon(self, reason: str) -> None:
        self._real.abandon(reason)

    @property
    def is_wanted(self) -> bool:
        return self._real.is_wanted


def _check(api: object, error: object, delay: object, times: object) -> None:
    """A fault that could never strike would make a test pass for nothing."""
    if not isinstance(api, Api):
        raise ValueError(f"api={api!r} is not accepted; accepted: Api.PRODUCE, Api.FETCH and the others of headrace.testing.Api")
    if error is not None and not isinstance(error, ErrorCode):
        raise ValueError(f"error={error!r} is not accepted; accepted: ErrorCode.NOT_ENOUGH_REPLICAS and the others of ErrorCode")
    if not isinstance(delay, int | float) or delay < 0:
        raise ValueError(f"delay={delay!r} is not accepted; accepted: seconds of at least 0")
    if times is not None and (not isinstance(times, int) or times < 1):
        raise ValueError(f"times={times!r} is not accepted; accepted: a whole number of at least 1, or None for always")
