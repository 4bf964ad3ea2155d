"""Keys and values between JSON and bytes: as JSON, as text, or as base64 of any bytes."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final, Literal, Protocol

import orjson

from headrace.gateway.api.operations import Parameter
from headrace.gateway.brokers.tails import Shown
from headrace.gateway.serving.problems import bad_request
from headrace.model.delay.headers import DELAY_HEADER, DELIVER_AT_HEADER

Format = Literal["json", "text", "binary"]
FORMATS: Final = ("json", "text", "binary")
SHOWN_FORMATS: Final = ("auto", *FORMATS)
SCHEMA: Final = "schema"
SURELY_SHALLOW: Final = 200  # brackets

SHOW_KEYS: Final = Parameter(
    "keys",
    "How keys are shown; auto tells for each, and schema reads them by the schemas of the registry.",
    "choice",
    default="auto",
    choices=(*SHOWN_FORMATS, SCHEMA),
)
SHOW_VALUES: Final = Parameter(
    "values",
    "How values are shown; auto tells for each, and schema reads them by the schemas of the registry.",
    "choice",
    default="auto",
    choices=(*SHOWN_FORMATS, SCHEMA),
)


class Showing(Protocol):
    """Shows bytes in a way of its own; None leaves them to be shown as binary."""

    def show(self, data: bytes) -> tuple[Any, str] | None: ...


Form = str | Showing


def encoded(value: Any, form: str | None, what: str) -> bytes | None:
    """A JSON value as the bytes of a key or a value; null is none.  A text without a format is that text as a key, and JSON as a
    value."""
    if value is None:
        return None
    match form:
        case "json":
            try:
                return orjson.dumps(value)
            except TypeError:
                raise bad_request(
                    f"{what} is nested too deeply, or has a number or a text that JSON cannot carry here."
                ) from None
        case "text" if isinstance(value, str):
            return value.encode()
        case "binary" if isinstance(value, str):
            try:
                return base64.b64decode(value, validate=True)
            except binascii.Error:
                raise bad_request(f"{what} is not base64.") from None
    raise bad_request(f"{what} must be a text for the format {form}.")


def shown(data: bytes | None, form: Form) -> tuple[Any, str | None]:
    """Bytes as a JSON value, and in which format they are shown."""
    if data is None:
        return None, None
    if not isinstance(form, str):
        return form.show(data) or (base64.b64encode(data).decode(), "binary")
    if form in ("json", "auto"):
        try:
            value = orjson.loads(data)
            if _can_be_written(value, data):
                return value, "json"
        except orjson.JSONDecodeError:
            pass
    if form in ("text", "auto"):
        try:
            return data.decode(), "text"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(data).decode(), "binary"


def _can_be_written(value: Any, data: bytes) -> bool:
    """orjson reads what is nested more deeply than it writes; one such record must not stop those behind it."""
    if data.count(b"[") + data.count(b"{") < SURELY_SHALLOW:
        return True
    try:
        orjson.dumps([[[[[[[[value]]]]]]]])  # as deep as any answer has it
    except TypeError:
        return False
    return True


def document(given: Shown, keys: Form, values: Form) -> dict[str, Any]:
    """A record as callers see it.  What does not fit the format they asked for is shown as binary, and says so."""
    record = given.record
    key, key_format = shown(record.key, keys)
    value, value_format = shown(record.value, values)
    return {
        "topic": given.place.topic,
        "partition": given.place.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": key,
        "key_format": key_format,
        "value": value,
        "value_format": value_format,
        "headers": [[name, *shown_header(data)] for name, data in record.headers],
    }


def shown_header(data: bytes | None) -> tuple[str | None] | tuple[str, str]:
    """Text, where it is text; else base64 and the word for it."""
    if data is None:
        return (None,)
    try:
        return (data.decode(),)
    except UnicodeDecodeError:
        return (base64.b64encode(data).decode(), "binary")


def rendered(given: Shown, keys: Form, values: Form) -> bytes:
    """A record as one line of JSON, made once for all who want it so."""
    form = (keys, values)
    line = given.rendered.get(form)
    if line is None:
        line = given.rendered[form] = orjson.dumps(document(given, keys, values))
    return line


def headers_of(given: Any) -> list[tuple[str, bytes | None]] | None:
    """Headers as an object of texts, or as pairs, where a third part says that a value is binary."""
    if given is None:
        return None
    if isinstance(given, dict):
        given = [[name, value] for name, value in given.items()]
    if not isinstance(given, list):
        raise bad_request("headers must be an object, or a list of pairs.")
    return [_header(pair) for pair in given]


def _header(pair: Any) -> tuple[str, bytes | None]:
    match pair:
        case [str() as name, None]:
            return name, None
        case [str() as name, str() as text]:
            return name, text.encode()
        case [str() as name, str() as text, "binary"]:
            return name, encoded(text, "binary", "a header")
    raise bad_request("A header must be a name with a text or null.")


def delayed(
    headers: list[tuple[str, bytes | None]] | None, delay_ms: int | None, deliver_at: int | None
) -> list[tuple[str, bytes | None]] | None:
    """Headers with the one that keeps a record back."""
    if delay_ms is not None and deliver_at is not None:
        raise bad_request("Give delay_ms or deliver_at, not both.")
    if delay_ms is not None:
        return [*(headers or ()), (DELAY_HEADER, b"%d" % delay_ms)]
    if deliver_at is not None:
        return [*(headers or ()), (DELIVER_AT_HEADER, b"%d" % deliver_at)]
    return headers
