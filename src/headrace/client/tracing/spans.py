"""Spans of one client, by OpenTelemetry's conventions for messaging: send, process and commit.

A record's own context, which its headers carry, is that of the span that sent it, unless it came with one: a record that is
passed on keeps its own.  Keys and values are in no span: they may be nobody else's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Any

from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from headrace.client.errors import BrokerError, DeliveryFailed
from headrace.client.tracing.headers import creation_of, with_context
from headrace.model.identity import TopicPartition

SYSTEM = "messaging.system"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
TOPIC = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
OFFSET = "messaging.kafka.offset"
TOMBSTONE = "messaging.kafka.message.tombstone"
SIZE = "messaging.message.body.size"
COUNT = "messaging.batch.message_count"
CLIENT_ID = "messaging.client.id"
GROUP = "messaging.consumer.group.name"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

Report = Callable[[KafkaError | None, Message], None]
COMMITS_MAX = 100  # on their way at a time; spans of more than these are dropped


def is_provider(given: object) -> bool:
    return isinstance(given, TracerProvider)


class Spans:
    """Of one producer or consumer."""

    def __init__(self, provider: TracerProvider | None, *, bootstrap: str, client_id: str, group: str | None) -> None:
        # Without one it is the process's own, also when that is set later.
        self.tracer = trace.get_tracer("headrace", version("headrace"), tracer_provider=provider)
        self.common: dict[str, str | int] = {SYSTEM: "kafka", CLIENT_ID: client_id}
        if group is not None:
            self.common[GROUP] = group
        host, _, port = bootstrap.rpartition(":")
        if "," not in bootstrap and port.isdigit():
            self.common |= {SERVER_ADDRESS: host.strip("[]"), SERVER_PORT: int(port)}
        self.end = end
        self._commits: dict[frozenset[tuple[str, int, int]], Span] = {}

    def start(self, name: str, kind: str, span_kind: SpanKind, topics: Iterable[str], **how: Any) -> Span:
        """A span of an operation, named after its topic if that is one."""
        topic = next(iter(found), None) if len(found := set(topics)) == 1 else None
        attributes = {**self.common, OPERATION_NAME: name, OPERATION_TYPE: kind, **how.pop("attributes", {})}
        if topic is not None:
            attributes[TOPIC] = topic
        return self.tracer.start_span(name if topic is None else f"{name} {topic}", kind=span_kind, attributes=attributes, **how)

    # Sending

    def start_send(self, topic: str, value: bytes | None, options: dict[str, Any]) -> Span:
        """A record is about to be handed over; its headers in `options` get the context, unless they have one."""
        given = creation_of(options.get("headers"))
        attributes = {TOMBSTONE: True} if value is None else {SIZE: len(value)}
        if given is not None:
            return self.start("send", "send", SpanKind.CLIENT, (topic,), links=[Link(given)], attributes=attributes)
        span = self.start("send", "send", SpanKind.PRODUCER, (topic,), attributes=attributes)
        options["headers"] = with_context(options.get("headers"), trace.set_span_in_context(span))
        return span

    def start_send_many(self, topic: str, options: dict[str, Any]) -> Span:
        """Many records are: they share the context of one span."""
        span = self.start("send", "send", SpanKind.PRODUCER, (topic,))
        options["headers"] = with_context(None, trace.set_span_in_context(span))
        return span

    def reporting(self, span: Span, report: Report) -> Report:
        """What librdkafka is to call back: the span ends, then `report` is told."""
        if not span.is_recording():
            return report

        def reported(error: KafkaError | None, message: Message) -> None:
            span.set_attribute(PARTITION, str(message.partition()))
            if error is not None:
                end(span, error)
            else:
                if (offset := message.offset()) is not None and offset >= 0:
                    span.set_attribute(OFFSET, offset)
                span.end()
            report(error, message)

        return reported

    def end_many(self, span: Span, count: int, error: BaseException | None) -> None:
        span.set_attribute(COUNT, count)
        end(span, error)

    # Committing

    def start_commit(self, positions: Mapping[TopicPartition, int]) -> Span:
        """Offsets are about to be committed."""
        span = self.start("commit", "settle", SpanKind.CLIENT, {place.topic for place in positions})
        if len(positions) == 1:
            ((place, offset),) = positions.items()
            span.set_attributes({PARTITION: str(place.partition), OFFSET: offset})
        return span

    def committing(self, positions: Mapping[TopicPartition, int], commit: Callable[[], None]) -> None:
        """A transaction is, with these offsets as part of it."""
        span = self.start_commit(positions)
        try:
            commit()
        except BaseException as error:
            end(span, error)
            raise
        end(span)

    def leave_commit(self, span: Span, positions: Mapping[TopicPartition, int]) -> None:
        """It is on its way, and its answer ends the span."""
        if len(self._commits) < COMMITS_MAX:
            self._commits[frozenset((*place, offset) for place, offset in positions.items())] = span

    def commit_answered(self, offsets: Iterable[ClientPartition], error: KafkaError | None) -> None:
        answers = list(offsets)
        span = self._commits.pop(frozenset((each.topic, each.partition, each.offset) for each in answers), None)
        if span is not None:
            end(span, error or next((each.error for each in answers if each.error is not None), None))


def end(span: Span, error: BaseException | KafkaError | None = None) -> None:
    """It is over, well or with this error."""
    if isinstance(error, KafkaError):
        span.set_attribute(ERROR_TYPE, error.name())
        span.set_status(Status(StatusCode.ERROR, error.str()))
    elif error is not None:
        code = error.name if isinstance(error, BrokerError | DeliveryFailed) else None
        span.set_attribute(ERROR_TYPE, code or type(error).__qualname__)
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()
