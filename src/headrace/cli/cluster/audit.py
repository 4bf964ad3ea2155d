"""`headrace audit`: what was done on a cluster, by whom, and how it ended, out of the topic `__audit`.

An event that is there twice, after a write that had to be tried again, is shown once.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.connection import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Properties,
    consumer_client,
    open_admin,
    position_given,
)
from headrace.cli.failure import Failure
from headrace.cli.output import iso_time, remark, show_table
from headrace.cli.topics.consume import Printer, assign_at
from headrace.model.names import AUDIT, UNGROUPED

if TYPE_CHECKING:
    from headrace.client.admin.admin import Admin
    from headrace.client.librdkafka import Consumer
    from headrace.client.positions import Position

COLUMNS: Final = ("time", "who", "from", "action", "on", "outcome", "details")
CHANGES_SHOWN: Final = 5
UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
ACTIVITIES: Final = {1: "create", 2: "read", 3: "update", 4: "delete"}
SIGN_IN: Final = "SignIn"
NOTE: Final = "Audit"  # what the trail says of itself
AUTHENTICATION: Final = 3002

UIDS_MAX: Final = 10_000

Event = dict[str, Any]
Show = Callable[[Event, bytes], None]

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Show what was done, by whom, and what was denied.")


class Outcome(StrEnum):
    """How something ended."""

    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events are asked for."""

    principal: str | None = None
    resource: str | None = None
    action: str | None = None
    outcome: Outcome | None = None
    since_ms: int = 0
    until_ms: int | None = None

    def matches(self, event: Event) -> bool:
        return (
            self.principal in (None, _who(event))
            and (self.resource is None or any(_is_named(self.resource, each) for each in event.get("resources", ())))
            and (self.action is None or _is_action(self.action, event))
            and self.outcome in (None, outcome_of(event))
            and self.since_ms <= event["time"]
            and (self.until_ms is None or event["time"] <= self.until_ms)
        )


def _is_named(pattern: str, resource: Event) -> bool:
    """`orders`, `orders-*`, or with a kind before it, `group:readers`."""
    kind, colon, name = pattern.partition(":")
    if colon and kind.lower() == str(resource["type"]).lower():
        return fnmatchcase(resource["name"], name)
    return fnmatchcase(resource["name"], pattern)


def _is_action(pattern: str, event: Event) -> bool:
    """The API's name, or the kind of what it does."""
    names = (_action(event), ACTIVITIES.get(event["activity_id"], "") if _action(event) != SIGN_IN else "")
    return any(fnmatchcase(name.lower(), pattern.lower().replace("-", "")) for name in names)


def _who(event: Event) -> str:
    user = event["user"] if event["class_uid"] == AUTHENTICATION else event["actor"]["user"]
    return str(user["uid"])


def _action(event: Event) -> str:
    return SIGN_IN if event["class_uid"] == AUTHENTICATION else str(event["api"]["operation"])


def outcome_of(event: Event) -> Outcome:
    if event["status_id"] == 1:
        return Outcome.DONE
    is_denial = event["class_uid"] == AUTHENTICATION or str(event["status_code"]).endswith("AUTHORIZATION_FAILED")
    return Outcome.DENIED if is_denial else Outcome.FAILED


# --- for people ---------------------------------------------------------------------------------------------------------------


def _row(event: Event) -> tuple[str, ...]:
    on = ", ".join(f"{each['type'].lower()} {each['name']}" for each in event.get("resources", ()))
    cells = (_who(event), event["src_endpoint"].get("ip", ""), _action(event), on, outcome_of(event).value, _details(event))
    return (iso_time(event["time"]), *map(_printable, cells))


def _details(event: Event) -> str:
    changes = event["unmapped"].get("changes", ())
    parts = [f"{each['name']}: {_value(each['before'])} → {_value(each['after'])}" for each in changes[:CHANGES_SHOWN]]
    if len(changes) > CHANGES_SHOWN:
        parts.append(f"and {len(changes) - CHANGES_SHOWN} more")
    if event["status_id"] != 1:
        parts.insert(0, " ".join(filter(None, (event["status_code"], event["status_detail"]))))
    elif event["status_detail"]:
        parts.insert(0, event["status_detail"])
    if event.get("count", 1) > 1:
        parts.insert(0, f"{event['count']} times")
    return "; ".join(parts)


def _value(value: object) -> str:
    return "-" if value is None else str(value)


def _printable(text: str) -> str:
    """Names are whatever clients say: what would steer a terminal is shown as it is spelled."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


# --- reading ------------------------------------------------------------------------------------------------------------------


class EventPrinter(Printer):
    """Hands on each event that is wanted, once."""

    def __init__(self, consumer: "Consumer", bootstrap: str, wanted: Wanted, show: Show, limit: int | None = None) -> None:
        super().__init__(consumer, lambda message: b"", bootstrap, limit=limit, commits=False)
        self._wanted = wanted
        self._show = show
        self._seen: dict[str, None] = {}

    def _print(self, message: Any) -> None:
        line = message.value()
        event: Event = json.loads(line)
        uid = event["metadata"]["uid"]
        if uid in self._seen or not self._wanted.matches(event):
            return
        self._seen[uid] = None
        if len(self._seen) > UIDS_MAX:
            del self._seen[next(iter(self._seen))]
        self._show(event, line)
        if self.left is not None:
            self.left -= 1


def _read(
    bootstrap: str,
    properties: list[str] | None,
    wanted: Wanted,
    place_in: Callable[["Admin"], "Position"],
    show: Show,
    *,
    follow: bool = False,
    limit: int | None = None,
) -> None:
    """Show what is wanted from a place on, up to what is the end now, or for ever."""
    admin = open_admin(bootstrap, properties)
    partitions = _partitions(admin)
    consumer = consumer_client(
        bootstrap,
        properties,
        group_id=UNGROUPED,
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        auto_offset_reset="earliest",
    )
    printer = EventPrinter(consumer, bootstrap, wanted, show, limit)
    try:
        ends = assign_at(consumer, admin, AUDIT, partitions, place_in(admin))
        printer.ends = None if follow else ends
        printer.run()
    except KeyboardInterrupt:
        raise typer.Exit(0 if follow else 130) from None  # Ctrl-C is how --follow is meant to end
    finally:
        printer.finish()


def _partitions(admin: "Admin") -> list[int]:
    from headrace.client.errors import BrokerError, TopicNotFound

    try:
        return [each.index for each in admin.topic(AUDIT).partitions]
    except TopicNotFound:
        raise Failure(f"there is no {AUDIT} yet; brokers with authorizer=acl or headrace.audit=on keep one.") from None
    except BrokerError as error:
        if error.name != "TOPIC_AUTHORIZATION_FAILED":
            raise
        hint = f"`headrace acl allow --user NAME --read {AUDIT}` allows it; a rule for all topics does not."
        raise Failure(f"you may not read {AUDIT}. {hint}") from None


def _shown(read: Callable[[Show], None], *, as_json: bool, at_once: bool = False) -> None:
    """As lines of JSON, as lines for people who follow, or as a table of all."""
    rows: list[tuple[str, ...]] = []

    def show(event: Event, line: bytes) -> None:
        if as_json:
            print(line.decode(), flush=at_once)
        elif at_once:
            print("  ".join(cell or "-" for cell in _row(event)), flush=True)
        else:
            rows.append(_row(event))

    read(show)
    if rows:
        show_table(COLUMNS, rows)
    elif not as_json and not at_once:
        remark("Nothing was found.")


# --- the commands -------------------------------------------------------------------------------------------------------------


@app.command("tail", epilog="Example: [bold]headrace audit tail --follow[/bold]")
def tail(
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="How many of the last events.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more; Ctrl-C stops.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Show what was done last: acts, denials and failed sign-ins.

    Reading the trail needs a right of its own: [bold]headrace acl allow --user NAME --read __audit[/bold].
    With --json each event is one line, as it is in the topic (OCSF)."""

    def place(admin: "Admin") -> "Position":
        from headrace.client.positions import Position, ranges
        from headrace.model.identity import TopicPartition

        ((low, high),) = ranges(admin, [TopicPartition(AUDIT, 0)]).values()
        return Position("offset", max(low, high - count))

    _shown(lambda show: _read(bootstrap, properties, Wanted(), place, show, follow=follow), as_json=as_json, at_once=follow)


@app.command("search", epilog="Example: [bold]headrace audit search --user ann --action delete --since 7d[/bold]")
def search(
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="NAME", help="By this principal: ann, User:ann or Group:ops.")
    ] = None,
    resource: Annotated[
        str | None,
        typer.Option("--resource", "-r", metavar="NAME", help="On this: orders, 'orders-*', or with a kind, group:readers."),
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(
            "--action", "-a", metavar="NAME", help="An API such as CreateTopics or 'Alter*', or create, update, delete, sign-in."
        ),
    ] = None,
    outcome: Annotated[Outcome | None, typer.Option("--outcome", "-o", help="How it ended.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="From then on: an ISO timestamp, or 30m, 12h, 7d ago.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Up to then, written in the same way.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Stop after this many, the oldest first.")] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Find what was done, by whom, on what, when, and how it ended.

    Denials of the same kind within a minute are aggregated into one event: "12 times"."""
    if action is not None:
        _check_action(action)
    wanted = Wanted(
        principal=None if user is None else user if ":" in user else f"User:{user}",
        resource=resource,
        action=action,
        outcome=outcome,
        since_ms=0 if since is None else _moment_ms(since),
        until_ms=None if until is None else _moment_ms(until),
    )

    def place(admin: "Admin") -> "Position":
        from headrace.client.positions import EARLIEST, Position

        return EARLIEST if since is None else Position("time", wanted.since_ms)

    _shown(lambda show: _read(bootstrap, properties, wanted, place, show, limit=limit), as_json=as_json)


def _moment_ms(text: str) -> int:
    """An ISO timestamp, or so long ago."""
    if found := re.fullmatch(r"(\d+)([smhd])", text.strip()):
        return int((time.time() - int(found[1]) * UNITS_S[found[2]]) * 1000)
    wrong = typer.BadParameter(
        f"{text!r} is not a time; write an ISO timestamp such as 2026-05-01T12:00, or 30m, 12h, 7d for so long ago."
    )
    try:
        place = position_given(text)
    except typer.BadParameter:
        raise wrong from None
    if place.kind != "time":
        raise wrong
    return place.number


def _check_action(pattern: str) -> None:
    """A name that no event can have would find nothing, and look like an answer."""
    from difflib import get_close_matches

    from headrace.wire.apis import ApiKey, api_name

    kinds = (*ACTIVITIES.values(), "sign-in")
    known = {name.lower().replace("-", ""): name for name in (*kinds, NOTE, *map(api_name, ApiKey))}
    wanted = pattern.lower().replace("-", "")
    if not any(fnmatchcase(name, wanted) for name in known):
        near = get_close_matches(wanted, known, n=1)
        hint = f"did you mean {known[near[0]]}?" if near else f"give an API such as CreateTopics, or one of {', '.join(kinds)}."
        raise typer.BadParameter(f"there is no action {pattern!r}; {hint}")
