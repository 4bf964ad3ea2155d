"""Spans of what is done with records: around a callback, or from when a reader is handed some until it asks for more.

While such a span lasts it is the current one, so that what is sent meanwhile belongs to it.  A single record's span continues the
trace in which the record was sent; one of many records has links to theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextvars import Token
from inspect import isawaitable
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind

from headrace.client.records.record import Record
from headrace.client.tracing.headers import context_of, creation_of, span_in
from headrace.client.tracing.spans import COUNT, OFFSET, PARTITION, Spans, end

LINKS_MAX = 128  # OpenTelemetry's own limit: what is more would be dropped
AnyRecord = Record[Any, Any]


def start_one(spans: Spans, record: AnyRecord) -> tuple[Span, Context]:
    """A span for one record, and the context in which it is handled."""
    around = contexts.get_current()
    came_with = context_of(record.headers)
    creation = None if came_with is None else span_in(came_with)
    links = [Link(each) for each in (creation, span_in(around) if creation is not None else None) if each is not None]
    span = spans.start(
        "process",
        "process",
        SpanKind.CONSUMER,
        (record.topic,),
        context=around if creation is None else came_with,
        links=links,
        attributes={PARTITION: str(record.partition), OFFSET: record.offset},
    )
    return span, trace.set_span_in_context(span, came_with or around)


def start_many(spans: Spans, records: Sequence[AnyRecord]) -> tuple[Span, Context]:
    """A span for a batch."""
    found = (creation_of(record.headers) for record in records[:LINKS_MAX])
    links = [Link(each) for each in found if each is not None]
    topics = {record.topic for record in records}
    span = spans.start("process", "process", SpanKind.CONSUMER, topics, links=links, attributes={COUNT: len(records)})
    places = {(record.topic, record.partition) for record in records}
    if len(places) == 1:
        span.set_attribute(PARTITION, str(next(iter(places))[1]))
    return span, trace.set_span_in_context(span)


class Handling:
    """What a reader has in its hands.  It reads from one thread at a time, and may be closed from another."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._span: Span | None = None
        self._context: Context | None = None
        self._token: Token[Context] | None = None

    def begin(self, records: Sequence[AnyRecord], *, single: bool) -> None:
        """These are handed out; the one of a `single` reader by itself."""
        if records:
            started = start_one(self._spans, records[0]) if single else start_many(self._spans, records)
            self._span, self._context = started
            self._token = contexts.attach(self._context)

    def end(self, error: BaseException | None = None) -> None:
        """They are done with, or were left because of this."""
        span, token, ours = self._span, self._token, self._context
        self._span = self._token = self._context = None
        if token is not None and contexts.get_current() is ours:
            # Else somebody else's span has begun and not ended since, or this is another thread: it is not ours to go back.
            contexts.detach(token)
        if span is not None:
            end(span, error)


def around(spans: Spans, callback: Callable[[AnyRecord], object]) -> Callable[[AnyRecord], object]:
    """The callback with a span around each call, which lasts until the future is done that it may return."""

    @functools.wraps(callback)
    def traced(record: AnyRecord) -> object:
        span, context = start_one(spans, record)
        token = contexts.attach(context)
        try:
            returned = callback(record)
        except BaseException as error:
            end(span, error)
            raise
        finally:
            contexts.detach(token)
        if isinstance(returned, Future):
            returned.add_done_callback(lambda done: end(span, CancelledError() if done.cancelled() else done.exception()))
        else:
            end(span)
        return returned

    return traced


def around_async(spans: Spans, callback: Callable[[AnyRecord], Awaitable[object]]) -> Callable[[AnyRecord], Awaitable[object]]:
    """The same for a coroutine function; what it returns to be awaited belongs to it."""

    @functools.wraps(callback)
    async def traced(record: AnyRecord) -> object:
        span, context = start_one(spans, record)
        token = contexts.attach(context)
        try:
            returned = await callback(record)
            if isawaitable(returned):
                returned = await returned
        except BaseException as error:
            end(span, error)
            raise
        finally:
            contexts.detach(token)
        end(span)
        return returned

    return traced
