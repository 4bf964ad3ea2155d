"""The context of a trace in a record's headers: `traceparent` and what else the process's propagator writes.

Who reads and writes it is OpenTelemetry's global propagator, so that `OTEL_PROPAGATORS` counts here as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import SpanContext

Headers = list[tuple[str, bytes | None]]


class _HeaderSetter(Setter[Headers]):  # type: ignore[misc]
    def set(self, carrier: Headers, key: str, value: str) -> None:
        carrier.append((key, value.encode()))


class _Read(Getter[Headers]):  # type: ignore[misc]
    def get(self, carrier: Headers, key: str) -> list[str] | None:
        found = [value.decode(errors="replace") for name, value in carrier if value is not None and name.lower() == key]
        return found or None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


HEADER_SETTER = _HeaderSetter()
READ = _Read()


def context_of(headers: Iterable[tuple[str, bytes | None]] | None) -> Context | None:
    """What came with a record, baggage included; None where nothing did."""
    found: Headers = [(name, value) for name, value in headers or () if isinstance(value, bytes)]
    if not found:
        return None
    context = propagate.extract(found, context=Context(), getter=READ)
    return context or None


def creation_of(headers: Iterable[tuple[str, bytes | None]] | None) -> SpanContext | None:
    """The span in which a record was made; None where its headers tell none."""
    context = context_of(headers)
    return None if context is None else span_in(context)


def span_in(context: Context) -> SpanContext | None:
    found = trace.get_current_span(context).get_span_context()
    return found if found.is_valid else None


def with_context(headers: Iterable[tuple[str, bytes | None]] | None, context: Context) -> Headers:
    """These headers and, after them, the context."""
    written = list(headers or ())
    propagate.inject(written, context=context, setter=HEADER_SETTER)
    return written
