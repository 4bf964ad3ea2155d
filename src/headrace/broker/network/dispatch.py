"""From a frame to its handler and back: reads the header, checks the version, decodes, calls, encodes.

A request that cannot be read ends its connection; so does one whose API or version is not served, except ApiVersions, which is
how a client finds out.  A handler that raises costs its own connection and nobody else's.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.broker.metrics.figures import NetworkFigures
from headrace.broker.metrics.response_errors import error_codes
from headrace.broker.network.connection import Connection
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.network.request_tasks import RequestTasks
from headrace.broker.network.throttling import Throttling, Timed
from headrace.broker.sign_in.sign_in import SignIn
from headrace.declaring import dataclass
from headrace.host.clock import Clock
from headrace.host.disk import Buffer
from headrace.metrics.log_lines import current_request
from headrace.model.access.acls import CLUSTER_NAME, Operation, ResourceType
from headrace.model.access.principals import Principal, Subject
from headrace.model.errors import RequestError
from headrace.security.audit.events import Origin
from headrace.security.authentication.session import NotSignedInError, State
from headrace.security.authorization.guard import NOT_ASKED, Guard
from headrace.security.authorization.permissions import FOR_BROKERS, Check, check_of
from headrace.wire.apis import ApiKey, api_name
from headrace.wire.codec import decode, encode
from headrace.wire.errors import WireError
from headrace.wire.framing import read_request_header, response_header

if TYPE_CHECKING:
    from headrace.broker.tracing.trail import Trail

OPEN: Final = Guard()


@dataclass(slots=True)
class RequestContext:
    """Who asks, how, and what they may."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection: Connection
    guard: Guard = OPEN

    @property
    def client_host(self) -> str:
        return self.connection.client_host

    @property
    def principal(self) -> Principal:
        return self.connection.principal

    @property
    def subject(self) -> Subject:
        """Its principal, its groups and its address, as rules ask for them."""
        return self.connection.subject

    @property
    def origin(self) -> Origin:
        """Who asks, from where and by which client, for the audit."""
        connection = self.connection
        return Origin(
            subject=self.subject,
            port=connection.client_port,
            listener=connection.listener,
            client_id=self.client_id or "",
            software=connection.software,
        )

    def may(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether they may do this, which the table of permissions has to name for this API."""
        guard = self.guard
        # What brokers do is asked for without rules, too.
        return (guard.authorizer is None and operation is not Operation.CLUSTER_ACTION) or guard.allows(
            self.subject, check_of(self.api_key, operation, resource_type), name, self
        )

    def require(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise RequestError with the table's error where they may not."""
        if not self.may(operation, resource_type, name):
            raise denied(self.subject, check_of(self.api_key, operation, resource_type))

    def listed(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> list[str]:
        """Those that a list of all shows; nobody is denied what they did not ask for by name."""
        if self.guard.authorizer is None:
            return list(names)
        return self.guard.listed(self.subject, check_of(self.api_key, operation, resource_type), names)

    def authorized_operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME, *, asked: bool = True) -> int:
        """A bit for each operation that they may, if they asked for them (KIP-430)."""
        if not asked:
            return NOT_ASKED
        return self.guard.authorized_operations(self.subject, resource_type, name)

    def response_header(self) -> bytes:
        return response_header(self.api_key, self.api_version, self.correlation_id)


def denied(subject: Subject, check: Check) -> RequestError:
    """The refusal, in words that tell nothing about the resource that its asker did not say."""
    kind = check.resource_type.name.lower().replace("_", " ")
    return RequestError(check.error, f"{subject.principal.shown} may not {check.operation.name} this {kind}.")


# What is answered before somebody has signed in.
SIGNING_IN = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

Handler = Callable[[Any, RequestContext], Any]
DirectHandler = Callable[[Buffer, int, RequestContext, PendingReply], None]
# What is answered to a request that its sender may not make at all; None when the handler is to have it.
Refusal = Callable[[Any, RequestContext], Any]


@dataclass(frozen=True, slots=True)
class Route:
    """One API: the versions served, and who answers.

    A plain handler gets the decoded request and returns the response, now or later.  A direct one gets the frame and answers by
    itself: the two APIs that carry records."""

    versions: range
    request: type[Any]
    handler: Handler | None = None
    direct: DirectHandler | None = None
    # Whether the handler is a coroutine function, which a task runs.
    waits: bool = False


class UnderWay:
    """A request, for those who log while it is worked on.  Empty once it is answered: what it began may outlive it."""

    __slots__ = ("_reply",)

    def __init__(self, reply: PendingReply) -> None:
        self._reply: PendingReply | None = reply

    @property
    def name(self) -> str | None:
        return None if self._reply is None else self._reply.name

    def over(self) -> None:
        self._reply = None


class Dispatcher:
    """Starts requests."""

    def __init__(
        self,
        routes: Mapping[int, Route],
        throttling: Throttling,
        tasks: RequestTasks,
        clock: Clock,
        guard: Guard,
        refusal: Refusal,
        figures: NetworkFigures | None = None,
        trail: "Trail | None" = None,
    ) -> None:
        self.routes = routes
        by_api = (figures or NetworkFigures()).by_api
        # All there are, once: no request makes another.
        self._figures = {key: by_api[key] for key in routes}
        self._trail = trail
        self._guard = guard
        self._refusal = refusal
        self._throttling = throttling
        self._quotas = throttling.quotas
        self._tasks = tasks
        self._monotonic = clock.monotonic

    def start(self, frame: Buffer, connection: Connection, reply: PendingReply) -> None:
        """Begin one request.  Raises WireError when its bytes are wrong, NotSignedInError when one has to sign in first."""
        sign_in = connection.sign_in
        if sign_in is not None and sign_in.takes_bare_tokens:
            self._start_token(frame, connection, sign_in, reply)
            return
        (key, version, correlation_id, client_id), position = read_request_header(frame)
        connection.figures.client_id = client_id or ""
        reply.api_key, reply.correlation_id = key, correlation_id
        if sign_in is not None:
            _check_signed_in(sign_in, key)
        context = RequestContext(key, version, correlation_id, client_id, connection, self._guard)
        route = self.routes.get(key)
        if route is None or version not in route.versions:
            self._refuse(context, reply)
            return
        figures = reply.figures = self._figures[key]
        figures.started += 1
        if (trail := self._trail) is not None and trail.is_on:
            trail.follow(frame, context, reply)
        if self._quotas.active:
            self._start_timed(route, frame, position, context, reply)
        elif route.direct is not None:
            route.direct(frame, position, context, reply)
        else:
            self._start_on(route, frame, position, context, reply)

    def _is_guarded(self, api_key: int) -> bool:
        return self._guard.authorizer is not None or api_key in FOR_BROKERS

    def _start_timed(self, route: Route, frame: Buffer, position: int, context: RequestContext, reply: PendingReply) -> None:
        """As below, with an eye on the clock: time is a quota too."""
        monotonic = self._monotonic
        began = monotonic()
        if route.direct is not None:
            # Its reply tells of what was owed before it; what it costs itself, the next one tells.
            route.direct(frame, position, context, reply)
            self._throttling.after_work(monotonic() - began, context)
            return
        assert route.handler is not None
        # What is logged on the way tells it; a task takes it along.
        before = current_request.set(UnderWay(reply))
        try:
            request = decode(route.request, frame, context.api_version, position, exact=False)
            if self._is_guarded(context.api_key) and (refusal := self._refusal(request, context)) is not None:
                self._answer(self._throttling.with_wait(refusal, monotonic() - began, context), context, reply)
            elif route.waits:
                reply.keep(len(frame))
                self._start_task(partial(self._timed, route.handler), request, context, reply)
            else:
                response = route.handler(request, context)
                self._answer(self._throttling.with_wait(response, monotonic() - began, context), context, reply)
        finally:
            current_request.reset(before)

    async def _timed(self, handler: Handler, request: Any, context: RequestContext) -> Any:
        timed = Timed(handler(request, context), self._monotonic)
        response = await timed
        return self._throttling.with_wait(response, timed.seconds, context)

    def _start_on(self, route: Route, frame: Buffer, position: int, context: RequestContext, reply: PendingReply) -> None:
        assert route.handler is not None
        before = current_request.set(UnderWay(reply))
        try:
            request = decode(route.request, frame, context.api_version, position, exact=False)
            if self._is_guarded(context.api_key) and (refusal := self._refusal(request, context)) is not None:
                self._answer(refusal, context, reply)
            elif route.waits:
                reply.keep(len(frame))
                self._start_task(route.handler, request, context, reply)
            else:
                self._answer(route.handler(request, context), context, reply)
        finally:
            current_request.reset(before)

    def _start_token(self, frame: Buffer, connection: Connection, sign_in: SignIn, reply: PendingReply) -> None:
        if sign_in.is_busy:
            raise WireError("a token came before the one before it was answered")
        connection.hold_start()
        self._tasks.run(self._answer_token(bytes(frame), connection, sign_in, reply), reply)

    async def _answer_token(self, token: bytes, connection: Connection, sign_in: SignIn, reply: PendingReply) -> None:
        """Bare as it came.  There is no word for a refusal: the connection ends."""
        connection.release_start()
        context = RequestContext(ApiKey.SASL_AUTHENTICATE, 0, 0, None, connection)
        answer = await sign_in.on_token(token, context.origin)
        if sign_in.is_over:
            connection.close_quietly()
            return
        if (identity := sign_in.session.identity) is not None:
            connection.on_signed_in(identity)
        reply.send((answer.auth_bytes,))

    def _refuse(self, context: RequestContext, reply: PendingReply) -> None:
        if context.api_key != ApiKey.API_VERSIONS:
            raise WireError(f"API {context.api_key} version {context.api_version} is not served")
        # A client newer than we are: answer in the oldest version, which it must understand (KIP-511).
        context.api_version = 0
        route = self.routes[ApiKey.API_VERSIONS]
        assert route.handler is not None
        self._answer(route.handler(None, context), context, reply)

    def _answer(self, response: Any, context: RequestContext, reply: PendingReply) -> None:
        if (figures := reply.figures) is not None:
            for code in error_codes(response):
                figures.errors[code] += 1
        reply.send((context.response_header(), encode(response, context.api_version)))
        _answered()
        connection = context.connection
        if connection.sign_in is not None and connection.sign_in.is_over:
            # After the reply, which leaves in the loop's next turn.
            connection.loop.call_soon(connection.close_quietly)

    def _start_task(self, handler: Handler, request: Any, context: RequestContext, reply: PendingReply) -> None:
        context.connection.hold_start()
        self._tasks.run(self._run(handler, request, context, reply), reply)

    async def _run(self, handler: Handler, request: Any, context: RequestContext, reply: PendingReply) -> None:
        context.connection.release_start()
        try:
            # Called in here only: a task that is cancelled before it begins would leave the handler's coroutine to nobody.
            self._answer(await handler(request, context), context, reply)
        finally:
            _answered()


def _answered() -> None:
    """What is logged from now on where this request was worked on is not about it."""
    under_way = current_request.get()
    if isinstance(under_way, UnderWay):
        under_way.over()


def _check_signed_in(sign_in: SignIn, key: int) -> None:
    if sign_in.is_busy:
        raise NotSignedInError(f"{api_name(key)} was asked during sign-in")
    if key not in SIGNING_IN and not sign_in.may_ask():
        has_expired = sign_in.session.state is State.SIGNED_IN
        raise NotSignedInError(f"{api_name(key)} was asked {'after the session expired' if has_expired else 'before sign-in'}")
