"""When a delayed record is due, as people write it; and `headrace cancel`, which takes one back."""

import re
from datetime import datetime
from typing import Annotated

import typer

from headrace.cli.connection import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Properties,
    TopicName,
    connection_settings,
    existing_topic,
    open_admin,
)
from headrace.cli.failure import Failure
from headrace.cli.output import counted, remark
from headrace.model.delay.headers import DELAY_HEADER, DELIVER_AT_HEADER

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def duration_ms(option: str, text: str) -> int:
    """`90s`, `1.5h` in milliseconds."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{option} {text} is not a duration such as 500ms, 90s, 15m, 2h, 7d.")
    return int(float(found[1]) * _MILLISECONDS[found[2]])


def moment_ms(option: str, text: str) -> int:
    """A date and time in milliseconds since 1970; local time where it names no zone."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise typer.BadParameter(
            f"{option} {text} is not a date and time such as 2027-01-31T08:00 or 2027-01-31T08:00+01:00."
        ) from None


def time_of_delivery(delay: str | None, at: str | None) -> list[tuple[str, bytes]]:
    """The header for `--delay` or `--at`."""
    if delay is not None and at is not None:
        raise typer.BadParameter("Give --delay or --at, not both.")
    if delay is not None:
        return [(DELAY_HEADER, b"%d" % duration_ms("--delay", delay))]
    if at is not None:
        return [(DELIVER_AT_HEADER, b"%d" % moment_ms("--at", at))]
    return []


def cancel(
    topic: TopicName,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="The keys under which records wait.", show_default=False)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Take back delayed records by their key: all that wait under it, and none that was delivered.

    Examples:

      headrace topic create callbacks --config headrace.delay.enable=true

      echo 'call back' | headrace produce callbacks --key alice --delay 1h

      headrace cancel callbacks alice
    """
    from headrace.client.producer.producer import Producer

    with open_admin(bootstrap, property) as admin:
        existing_topic(admin, topic)
        if admin.settings(topic)["headrace.delay.enable"].value != "true":
            raise Failure(
                f"{topic} has no delays. `headrace topic alter {topic} --config headrace.delay.enable=true` switches them on."
            )
    with Producer(bootstrap, librdkafka=connection_settings(property)) as producer:
        for future in [producer.cancel(topic, key) for key in keys]:
            future.result()
    remark(f"Nothing waits any more under {counted(len(keys), 'key')} of {topic}.")
