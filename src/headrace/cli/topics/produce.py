"""`headrace produce`: lines from standard input become records.

Nothing is reported as written before the broker acknowledged it.  Memory stays bounded: when librdkafka's queue is full we wait.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from headrace.cli.connection import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Properties,
    TopicName,
    client_properties,
    connection_settings,
    key_values,
    producer_client,
    sentence,
)
from headrace.cli.failure import Failure
from headrace.cli.output import counted, remark, show_json
from headrace.cli.topics.delays import time_of_delivery
from headrace.model.time_to_live import TTL_HEADER

if TYPE_CHECKING:
    from headrace.client.librdkafka import Producer

DELIVERY_TIMEOUT_MS = 30_000
PATIENCE_S = 1.5  # before the brokers are asked what is wrong


@dataclass(slots=True)
class Tally:
    """What became of the records so far."""

    written: int = 0
    failed: int = 0
    first_error: Any = None
    fatal_error: Any = None
    first_size: int = 0  # of the record that it is about
    full_disks: dict[int, str] = field(default_factory=dict)
    partitions: dict[int, int] = field(default_factory=dict)

    def count(self, error: Any, message: Any) -> None:
        """librdkafka reports one delivery."""
        if error is not None:
            self.failed += 1
            if self.first_error is None:
                self.first_error = error
                self.first_size = len(message.value() or b"") + len(message.key() or b"")
            return
        self.written += 1
        self.partitions[message.partition()] = self.partitions.get(message.partition(), 0) + 1


def produce(
    topic: TopicName,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="What stands between key and value in a line.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="One key for all records.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for all records; may be repeated.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="The partition; chosen by the key if not given.")
    ] = None,
    timestamp: Annotated[
        int | None, typer.Option("--timestamp", min=0, help="Milliseconds since 1970 for all records; now if not given.")
    ] = None,
    ttl_ms: Annotated[
        int | None, typer.Option("--ttl-ms", min=1, help="Records expire after this long (topics with headrace.ttl.enable).")
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            "--delay",
            metavar="TIME",
            help="Deliver after this long: 500ms, 90s, 15m, 2h, 7d (topics with headrace.delay.enable).",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="Deliver then: 2027-01-31T08:00, local time, or with a zone, +01:00."),
    ] = None,
    null_marker: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="A value of exactly this text means no value: a tombstone.")
    ] = None,
    compression: Annotated[
        str, typer.Option("--compression", "-z", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    acks: Annotated[str, typer.Option("--acks", help="0, 1 or all.")] = "all",
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Write lines from standard input to a topic, one record each.

    Examples:

      echo hello | headrace produce greetings

      headrace produce users --key-separator : --header source=import < users.txt

      echo alice:NULL | headrace produce users --key-separator : --null NULL

      echo 'time to renew' | headrace produce reminders --key alice --delay 30d
    """
    if key is not None and key_separator is not None:
        raise typer.BadParameter("Give --key or --key-separator, not both.")
    _check_choices(compression, acks)
    headers = [(name, value.encode()) for name, value in key_values(header, "--header").items()]
    if ttl_ms is not None:
        headers.append((TTL_HEADER, str(ttl_ms).encode()))
    headers += time_of_delivery(delay, at)
    where = {"partition": partition, "timestamp": timestamp}
    placement = {"headers": headers, **{name: given for name, given in where.items() if given is not None}}
    producer = _producer(bootstrap, property, compression=compression, acks=acks)
    if sys.stdin.isatty():
        remark(f"Type lines for {topic}; Ctrl-D ends.")
    null = None if null_marker is None else null_marker.encode()
    pairs = key_value_pairs(sys.stdin.buffer, key, None if key_separator is None else key_separator.encode(), null)
    tally = _send_all(producer, topic, pairs, placement, bootstrap, property)
    reason = _reason(topic, tally, bootstrap, property) if tally.failed else ""
    _report(topic, tally, reason, as_json)


def _check_choices(compression: str, acks: str) -> None:
    if compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise typer.BadParameter(f"--compression {compression} is not one of none, gzip, snappy, lz4, zstd.")
    if acks not in ("0", "1", "all"):
        raise typer.BadParameter(f"--acks {acks} is not one of 0, 1, all.")


def _producer(bootstrap: str, properties: list[str] | None, *, compression: str, acks: str) -> "Producer":
    return producer_client(
        bootstrap,
        properties,
        acks=acks,
        # With acks all a retry must not write twice; with less, idempotence is not on offer.
        enable_idempotence=acks == "all",
        compression_type=compression,
        # A person's line should be there when they look; a file still fills large batches.
        linger_ms=5,
        delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
        # The Java client's choice, so that one key is in one partition whoever wrote it.
        partitioner="murmur2_random",
        **{"topic.metadata.propagation.max.ms": 5_000},
    )


def key_value_pairs(
    lines: BinaryIO, key: str | None, separator: bytes | None, null: bytes | None
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The key and value of each line, without its line end."""
    fixed = None if key is None else key.encode()
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        record_key, value = fixed, text
        if separator is not None:
            record_key, found, value = text.partition(separator)
            if not found:
                raise Failure(f"line {number} has no key separator {separator.decode()!r}: {_shortened(text)}")
        yield record_key, None if value == null else value


def _shortened(text: bytes) -> str:
    shown = text.decode("utf-8", "backslashreplace")
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _send_all(
    producer: "Producer",
    topic: str,
    pairs: Iterator[tuple[bytes | None, bytes | None]],
    placement: dict[str, Any],
    bootstrap: str,
    properties: list[str] | None,
) -> Tally:
    tally = Tally()
    try:
        for key, value in pairs:
            _send(producer, topic, key, value, placement, tally)
            if tally.first_error is not None:
                break  # what is wrong for one is wrong for the next: stop instead of failing a whole file line by line
    finally:
        # Also on Ctrl-C and on a bad line: what was read before it is delivered or counted as failed.
        # The flush itself calls `count`: it must be over before the tally is added to.
        undelivered = _deliver(producer, tally, bootstrap, properties)
        tally.failed += undelivered
    return tally


def _deliver(producer: "Producer", tally: Tally, bootstrap: str, properties: list[str] | None) -> int:
    """Wait for what is under way; how many records were not delivered.  Says why when that takes long and the brokers know."""
    from headrace.client.admin.full_disks import full_disks, in_words

    deadline, waited = time.monotonic() + DELIVERY_TIMEOUT_MS / 1000 + 1, False
    while undelivered := _flush(producer, tally, min(PATIENCE_S, max(0.0, deadline - time.monotonic()))):
        if tally.fatal_error is not None or time.monotonic() >= deadline:
            break
        known = bool(tally.full_disks)
        tally.full_disks = full_disks(bootstrap, connection_settings(properties))
        if tally.full_disks and not known:
            remark(f"Waiting for room: {in_words(tally.full_disks)}.")
        elif not waited:
            remark(f"Waiting for {bootstrap} to acknowledge {counted(undelivered, 'record')}.")
        waited = True
    return int(undelivered)


def _flush(producer: "Producer", tally: Tally, timeout: float) -> int:
    """How many records are left.  A fatal error is raised by librdkafka's binding from within the flush, and a delivery that is
    reported after it meets it as the cause of a SystemError."""
    from confluent_kafka import KafkaException

    try:
        return int(producer.flush(timeout))
    except (KafkaException, SystemError) as error:
        fatal = error if isinstance(error, KafkaException) else error.__cause__
        if not isinstance(fatal, KafkaException):
            raise
        tally.fatal_error = fatal.args[0]
        return len(producer)


def _send(
    producer: "Producer", topic: str, key: bytes | None, value: bytes | None, placement: dict[str, Any], tally: Tally
) -> None:
    from confluent_kafka import KafkaException

    while True:
        try:
            producer.produce(topic, value=value, key=key, on_delivery=tally.count, **placement)
        except BufferError:
            producer.poll(0.1)
            continue
        except KafkaException as error:
            raise Failure(f"writing to {topic} failed: {_refused(error.args[0], value, key)}") from None
        producer.poll(0)
        return


def _refused(error: Any, value: bytes | None, key: bytes | None) -> str:
    """Why the client itself refuses a record."""
    if error.name() != "MSG_SIZE_TOO_LARGE":
        return sentence(error)
    size = len(value or b"") + len(key or b"")
    return f"a record of {size:,} bytes is above message.max.bytes of the client. Raise it with -X message.max.bytes=BYTES."


def _reason(topic: str, tally: Tally, bootstrap: str, properties: list[str] | None) -> str:
    """Why records were not written: the first error, and the limit that it is about."""
    from headrace.client.admin.full_disks import full_disks, in_words
    from headrace.client.errors import fatal_reason
    from headrace.client.producer.refusals import ABOUT_A_LIMIT, NO_SUCH_TOPIC, NOT_MADE, Refusals

    if tally.fatal_error is not None:
        return f"{fatal_reason(tally.fatal_error)}."
    error = tally.first_error
    if error is not None and error.name() in NO_SUCH_TOPIC and (full := full_disks(bootstrap, connection_settings(properties))):
        return f"{NOT_MADE}: {in_words(full)}."
    if tally.full_disks and (error is None or error.name() == "_MSG_TIMED_OUT"):
        return f"{in_words(tally.full_disks)}."
    if error is None or error.name() == "_MSG_TIMED_OUT":
        return f"{bootstrap} did not acknowledge in time."
    if error.name() == "_UNKNOWN_PARTITION":
        return "the topic has no such partition. `headrace topic describe` shows those it has."
    if error.name() not in ABOUT_A_LIMIT:
        return sentence(error)
    limit = Refusals(client_properties(bootstrap, properties)).explain(error.name(), topic, " (--key, --key-separator)")
    limit = limit.replace("lower batch_bytes of this producer", "send smaller batches (-X batch.size=BYTES)")
    size = f" (a record of {tally.first_size:,} bytes)" if error.name() == "MSG_SIZE_TOO_LARGE" else ""
    return f"{error.str().removeprefix('Broker: ')}{size}{limit}." if limit else sentence(error)


def _report(topic: str, tally: Tally, reason: str, as_json: bool) -> None:
    if as_json:
        show_json(
            {
                "topic": topic,
                "written": tally.written,
                "failed": tally.failed,
                "partitions": dict(sorted(tally.partitions.items())),
            }
        )
    if tally.failed:
        verb = "was" if tally.failed == 1 else "were"
        raise Failure(f"{tally.written} records were written to {topic} and {tally.failed} {verb} not: {reason}")
    if not as_json:
        remark(f"{tally.written:,} {'record' if tally.written == 1 else 'records'} written to {topic}.")
