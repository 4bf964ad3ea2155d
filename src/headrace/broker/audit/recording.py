"""Acts are done when they are recorded: what stands between a request and its handler where the broker keeps an audit trail.

Before an act begins, the trail has to be writable; after it has ended, and before it is answered, what was done is durable there.
An act that is refused by the rules is a denial, which is told with those like it.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from headrace.broker.access.refusals import REFUSALS
from headrace.broker.administration.auto_creation import Make
from headrace.broker.audit.acts.act import Act, ActsOf, Describe, Surroundings, topic_named
from headrace.broker.audit.acts.administrative import ADMINISTRATIVE
from headrace.broker.audit.acts.topics import creation, values_of
from headrace.broker.audit.topic import AuditUnavailable
from headrace.broker.audit.trail import AuditTrail
from headrace.broker.network.dispatch import Handler, RequestContext, Route
from headrace.model.errors import ErrorCode, RequestError
from headrace.security.audit.events import Activity, Origin
from headrace.security.authorization.permissions import DENIALS
from headrace.wire.apis import ApiKey

logger = logging.getLogger(__name__)

DENIED: Final = frozenset(DENIALS.values())
NOT_DONE: Final = "Nothing was done: the audit trail cannot be written ({})."
NOT_RECORDED: Final = "It was done, but is not in the audit trail yet, which cannot be written ({}); the broker's log has it."


class Recorder:
    """Has the acts of one broker recorded."""

    def __init__(self, trail: AuditTrail, around: Surroundings) -> None:
        self._trail = trail
        self._around = around

    def recorded(self, routes: dict[int, Route]) -> dict[int, Route]:
        """The routes, of which those that administer anything record what they do."""
        return {key: self._route(ApiKey(key), route) for key, route in routes.items()}

    async def auto_created(self, origin: Origin, make: Make) -> None:
        """A client named a topic that did not exist: it is made in the client's name."""
        try:
            await self._trail.require_writable()
        except AuditUnavailable as error:
            raise RequestError(ErrorCode.REQUEST_TIMED_OUT, NOT_DONE.format(error)) from None
        topic = await make()
        if topic is not None:
            act = Act(activity=Activity.CREATE, resources=(topic_named(topic.name),), changes=creation(values_of(topic)))
            with suppress(AuditUnavailable):  # it is recorded later
                await self._trail.record(origin, ApiKey.METADATA, [act])

    def _route(self, api: ApiKey, route: Route) -> Route:
        describe = ADMINISTRATIVE.get(api)
        if describe is None:
            return route
        assert route.handler is not None, "what carries records is no act"
        return replace(route, handler=self._handler(describe, route.handler, waits=route.waits), waits=True)

    def _handler(self, describe: Describe, handler: Handler, *, waits: bool) -> Handler:
        async def later(request: Any, context: RequestContext) -> Any:
            return handler(request, context)

        inner = handler if waits else later

        def start(request: Any, context: RequestContext) -> Awaitable[Any]:
            acts_of = describe(self._around, request, context)
            return inner(request, context) if acts_of is None else self._record(acts_of, inner, request, context)

        return start

    async def _record(
        self, acts_of: ActsOf, handler: Callable[[Any, RequestContext], Awaitable[Any]], request: Any, context: RequestContext
    ) -> Any:
        try:
            await self._trail.require_writable()
        except AuditUnavailable as error:
            logger.error("%s was refused: the audit trail cannot be written: %s", ApiKey(context.api_key).name, error)
            return _refusal(request, context, NOT_DONE.format(error))
        response = await handler(request, context)
        acts = [act for act in acts_of(response) if act.error not in DENIED]
        try:
            await self._trail.record(context.origin, ApiKey(context.api_key), acts)
        except AuditUnavailable as error:
            return _refusal(request, context, NOT_RECORDED.format(error))
        return response


def _refusal(request: Any, context: RequestContext, message: str) -> Any:
    """Kafka's word for what may or may not have been done, with the reason wherever the reply has a place for it."""
    return _worded(REFUSALS[context.api_key](request, ErrorCode.REQUEST_TIMED_OUT), message)


def _worded(value: Any, message: str) -> Any:
    if isinstance(value, tuple):
        return tuple(_worded(each, message) for each in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {each.name: _worded(getattr(value, each.name), message) for each in fields(value)}
    if "error_message" in changed:
        changed["error_message"] = message
    return replace(value, **changed)
