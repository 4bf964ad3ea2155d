"""How `headrace consume` prints a record: a named format, or a template with fields in braces."""

import json
from collections.abc import Callable
from string import Formatter
from typing import Any

import typer

from headrace.cli.output import iso_time

Line = Callable[[Any], bytes]
"""Turns a message of librdkafka into what is printed, without the line end."""

FORMATS = ("value", "key-value", "full", "json", "received")
FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def line_format(text: str, consumer_id: str) -> Line:
    """The printer for a --format: one of the named ones, or a template such as '{partition}:{offset} {value}'."""
    match text:
        case "value":
            return lambda message: message.value() or b""
        case "key-value":
            return lambda message: (message.key() or b"") + b"\t" + (message.value() or b"")
        case "full":
            return _full
        case "json":
            return _json
        case "received":
            prefix = f"{consumer_id} received ".encode()
            return lambda message: prefix + (message.value() or b"")
    return _template(text)


def _template(text: str) -> Line:
    try:
        parts = [(literal, name) for literal, name, _, _ in Formatter().parse(text)]
    except ValueError as error:
        raise typer.BadParameter(f"--format {text!r}: {error}.") from None
    unknown = [name for _, name in parts if name is not None and name not in FIELDS]
    if unknown or all(name is None for _, name in parts):
        raise typer.BadParameter(
            f"--format {text!r} is none of {', '.join(FORMATS)}, nor a template of {', '.join(f'{{{name}}}' for name in FIELDS)}."
        )
    pieces = [(literal.replace("\\t", "\t").replace("\\n", "\n").encode(), name) for literal, name in parts]

    def line(message: Any) -> bytes:
        return b"".join(literal + (b"" if name is None else _field(message, name)) for literal, name in pieces)

    return line


def _field(message: Any, name: str) -> bytes:
    match name:
        case "key":
            return message.key() or b""
        case "value":
            return message.value() or b""
        case "timestamp":
            return iso_time(message.timestamp()[1]).encode()
        case "headers":
            return b",".join(header.encode() + b"=" + (value or b"") for header, value in message.headers() or [])
        case _:
            return str(getattr(message, name)()).encode()


def _full(message: Any) -> bytes:
    words = [f"{message.topic()}-{message.partition()}@{message.offset()}", iso_time(message.timestamp()[1])]
    words += [f"{name}={_text(value)}" for name, value in message.headers() or []]
    return f"{'  '.join(words)}  {_text(message.key())} → {_text(message.value())}".encode()


def _text(value: bytes | None) -> str:
    return "null" if value is None else value.decode("utf-8", "backslashreplace")


def _json(message: Any) -> bytes:
    record = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": _text_or_base64(message.key()),
        "headers": [[name, _text_or_base64(value)] for name, value in message.headers() or []],
        "value": _text_or_base64(message.value()),
    }
    return json.dumps(record, ensure_ascii=False).encode()


def _text_or_base64(value: bytes | None) -> str | dict[str, str] | None:
    """Text as it is; bytes that are no text as {"base64": ...}, so that nothing is lost."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"base64": b64encode(value).decode()}
