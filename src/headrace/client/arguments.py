"""Arguments, checked where they come in, so that a wrong one is named at once and not by a broker minutes later."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.client.errors import InvalidArgument
from headrace.model.identity import TopicPartition

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "HEADRACE_BOOTSTRAP"
LIBRDKAFKA_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

Duration = float | int | timedelta
Moment = datetime | int
Config = dict[str, Any]


def bootstrap_address(given: str | Iterable[str] | None) -> str:
    """`host:port`, several with commas between; from the environment or the local default when nothing is given."""
    if given is None:
        given = os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
    addresses: list[object] = [given]
    if isinstance(given, Iterable):
        addresses = [*given.split(",")] if isinstance(given, str) else [*given]
    return ",".join(_one_address(address) for address in addresses or [given])


def _one_address(address: object) -> str:
    if isinstance(address, str):
        refuse_foreign_protocol(address)
        host, colon, port = address.strip().rpartition(":")
        if not colon and port:
            return f"{port}:9092"
        if host and port.isdecimal() and 0 < int(port) < 65536:
            return address.strip()
    raise InvalidArgument(
        f"bootstrap={address!r} is not an address; accepted: 'host:port', or several of them in a list or with commas between"
    )


def refuse_foreign_protocol(address: str) -> None:
    """librdkafka knows these protocols, and finds no broker behind any other, without a word, for as long as it may."""
    protocol, separator, rest = address.strip().partition("://")
    if separator and protocol.lower() not in LIBRDKAFKA_PROTOCOLS:
        raise InvalidArgument(
            f"bootstrap={address!r} begins with {protocol}://, which no broker speaks; accepted: {rest.rstrip('/')!r}"
        )


def topic_name(argument: str, given: object) -> str:
    if isinstance(given, str) and TOPIC_NAME.fullmatch(given) and given not in (".", ".."):
        return given
    raise InvalidArgument(f"{argument}={given!r} is not a topic name; accepted: 1 to 249 letters, digits, '.', '_' and '-'")


def choice(argument: str, given: object, accepted: Iterable[object]) -> None:
    accepted = list(accepted)
    # 1 == True in Python, and nobody means acks=True.
    if not any(given == each and type(given) is type(each) for each in accepted):
        raise InvalidArgument(f"{argument}={given!r} is not accepted; accepted: {', '.join(map(repr, accepted))}")


def label(argument: str, given: object) -> str:
    if isinstance(given, str) and given:
        return given
    raise InvalidArgument(f"{argument}={given!r} is not accepted; accepted: a name")


def several(argument: str, given: object, of: str) -> Iterable[Any]:
    """Any iterable but text, whose letters nobody means one by one."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | bytearray):
        return given
    raise InvalidArgument(f"{argument}={given!r} is not accepted; accepted: a list or another iterable of {of}")


def mapping(argument: str, given: object, of: str) -> Mapping[Any, Any]:
    if isinstance(given, Mapping):
        return given
    raise InvalidArgument(f"{argument}={given!r} is not accepted; accepted: a dict of {of}")


def topic_partition(argument: str, given: object) -> TopicPartition:
    if isinstance(given, TopicPartition):
        return given
    raise InvalidArgument(f"{argument}={given!r} is not accepted; accepted: TopicPartition(topic, partition)")


def topic_partitions(argument: str, given: object) -> list[TopicPartition]:
    return [topic_partition(argument, each) for each in several(argument, given, "TopicPartition(topic, partition)")]


def offsets_by_partition(argument: str, given: object) -> dict[TopicPartition, int]:
    pairs = mapping(argument, given, "TopicPartition(topic, partition) to offset").items()
    return {topic_partition(argument, each): whole_number(argument, offset, at_least=0) for each, offset in pairs}


def whole_number(argument: str, given: object, *, at_least: int, at_most: int | None = None) -> int:
    fits = isinstance(given, int) and not isinstance(given, bool) and given >= at_least and (at_most is None or given <= at_most)
    if not fits:
        upper = "" if at_most is None else f" and at most {at_most}"
        raise InvalidArgument(f"{argument}={given!r} is not accepted; accepted: a whole number of at least {at_least}{upper}")
    assert isinstance(given, int)
    return given


def seconds(argument: str, given: object, *, at_least: float = 0.0, at_most: float = math.inf) -> float:
    """A duration, as seconds: a number of them, or a timedelta."""
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if not isinstance(given, int | float) or isinstance(given, bool) or math.isinf(given) or not at_least <= given <= at_most:
        upper = "" if math.isinf(at_most) else f" and at most {at_most:.10g}"
        raise InvalidArgument(
            f"{argument}={given!r} is not a duration; accepted: seconds of at least {at_least:g}{upper}, or a timedelta"
        )
    return float(given)


def milliseconds(argument: str, given: object, *, at_least: float = 0.0, at_most: float = math.inf) -> int:
    return round(seconds(argument, given, at_least=at_least, at_most=at_most) * 1000)


def timestamp_ms(argument: str, given: object) -> int:
    """A point in time, as milliseconds since the epoch.  A datetime without a zone is taken as local time, as Python does."""
    if isinstance(given, datetime):
        given = int(given.timestamp() * 1000)
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    raise InvalidArgument(
        f"{argument}={given!r} is not a point in time; accepted: a datetime, or milliseconds since 1970 as a whole number"
    )


def as_datetime(milliseconds_since_epoch: int) -> datetime:
    return datetime.fromtimestamp(milliseconds_since_epoch / 1000, tz=UTC)


def merged(config: Config, extra: Mapping[str, Any] | None) -> Config:
    """Our settings, with librdkafka's own names on top for whoever needs them."""
    return {**config, **mapping("librdkafka", {} if extra is None else extra, "librdkafka's settings by name")}
