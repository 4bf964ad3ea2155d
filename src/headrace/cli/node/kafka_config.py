"""Kafka's `server.properties`, taken as it is: what it means here, and what means nothing here."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from headrace.cli.failure import Failure
from headrace.model.broker_settings import BROKER_SETTINGS
from headrace.model.kafka_settings import LISTENER_PREFIX
from headrace.model.security_settings import listener_of

# Older names, or names of one thing where the other name is for several.
RENAMED: Final = {
    "broker.id": "node.id",
    "log.dir": "log.dirs",
    # Brokers come to each other by the listener that is called as this protocol is.
    "security.inter.broker.protocol": "inter.broker.listener.name",
}
CONTROLLERS: Final = "controller.listener.names"
NAMED_LISTENERS: Final = ("listeners", "advertised.listeners", "listener.security.protocol.map")
# What only Kafka writes into a directory of logs.
KAFKAS_OWN: Final = ("bootstrap.checkpoint", "__cluster_metadata-0")
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class FromKafka(NamedTuple):
    given: dict[str, str]
    not_used: list[str]


def read_kafka_config(file: Path) -> FromKafka:
    """The settings of a file that Kafka's brokers start with."""
    try:
        properties = parse_properties(file.read_text())
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Failure(f"{file} is not a text file.") from None
    return translated(properties)


def translated(properties: Mapping[str, str]) -> FromKafka:
    """By the names that they have here.  Controllers' listeners are left out: a broker here has none."""
    controllers = {name.strip().upper() for name in properties.get(CONTROLLERS, "").split(",") if name.strip()}
    given: dict[str, str] = {}
    not_used = []
    for name, text in properties.items():
        here = RENAMED.get(name, name)
        if here in NAMED_LISTENERS:
            given[here] = _without(controllers, text)
        elif here != name and here in properties:
            continue  # the newer name wins, as it does in Kafka
        elif text == "":
            continue  # not set
        elif here in BROKER_SETTINGS or (here.startswith(LISTENER_PREFIX) and listener_of(here) is not None):
            given[here] = text
        else:
            not_used.append(name)
    return FromKafka(given, sorted(not_used))


def _without(controllers: set[str], text: str) -> str:
    items = [item.strip() for item in text.split(",")]
    return ",".join(item for item in items if item.split(":", 1)[0].upper() not in controllers)


def holds_kafkas_data(directory: Path) -> bool:
    """Whether a Kafka broker has written there, which keeps its topics' names and settings in a log of its own."""
    return any((directory / name).exists() for name in KAFKAS_OWN)


def parse_properties(text: str) -> dict[str, str]:
    """Java's format: `name=value`, `name: value` or `name value`, with comments, escapes and lines that go on."""
    found = {}
    for line in _logical_lines(text):
        name, value = _name_and_value(line)
        found[_unescaped(name)] = _unescaped(value).strip()
    return found


def _logical_lines(text: str) -> Iterator[str]:
    whole = ""
    for line in text.splitlines():
        line = line.lstrip()
        if not whole and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            whole += line[:-1]
            continue
        yield whole + line
        whole = ""
    if whole:
        yield whole


def _name_and_value(line: str) -> tuple[str, str]:
    found = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line)
    assert found is not None  # every part of it may be empty
    return found[1], found[2]


def _unescaped(text: str) -> str:
    def meant(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", meant, text)
