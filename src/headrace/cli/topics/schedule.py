"""`headrace schedule`: records that are sent at set times, again and again."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Properties,
    connection_settings,
    key_values,
    require_reachable,
)
from headrace.cli.output import remark, show_json, show_table

if TYPE_CHECKING:
    from headrace.client.admin.schedules import Schedule, Schedules

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Records that are sent at set times.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.", show_default=False)]


def _schedules(bootstrap: str, properties: list[str] | None) -> "Schedules":
    from headrace.client.admin.schedules import Schedules

    require_reachable(bootstrap, properties)
    return Schedules(bootstrap, connection_settings(properties))


@app.command()
def add(
    name: Name,
    cron: Annotated[str, typer.Option("--cron", help="When: minute, hour, day, month, weekday.", show_default=False)],
    topic: Annotated[str, typer.Option("--topic", help="Where to.", show_default=False)],
    timezone: Annotated[str, typer.Option("--timezone", metavar="ZONE", help="Whose time it is, as Europe/Vienna.")] = "UTC",
    value: Annotated[str | None, typer.Option("--value", help="What the record says.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Its key.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header; may be repeated.")
    ] = None,
    missed: Annotated[
        str,
        typer.Option("--missed", help="What becomes of times that went by without a broker: skip, once (the last one), all."),
    ] = "once",
    paused: Annotated[bool, typer.Option("--paused", help="Do not begin yet.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Make a schedule, or change the one that has this name.

    Example: headrace schedule add nightly --cron '0 3 * * *' --timezone Europe/Vienna --topic jobs --value '{"job": "report"}'
    """
    if missed not in ("skip", "once", "all"):
        raise typer.BadParameter(f"--missed {missed} is not one of skip, once, all.")
    parts: dict[str, Any] = {"cron": cron, "timezone": timezone, "topic": topic, "value": value, "key": key}
    parts |= {"headers": key_values(header, "--header"), "missed": missed, "paused": paused}
    schedules = _schedules(bootstrap, property)
    schedules.put(name, parts)
    found = schedules.get(name)
    remark(f"Schedule {name} is paused." if paused else f"Schedule {name} is due next at {_time(found.next_due_ms)}.")


@app.command("list")
def list_schedules(as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """Show all schedules: when each is due next, and was due last."""
    found = list(_schedules(bootstrap, property).all().values())
    if as_json:
        show_json([_as_json(each) for each in found])
        return
    rows = [
        (each.name, each.parts["cron"], each.parts["timezone"], each.parts["topic"], _next(each), _time(each.last_due_ms))
        for each in found
    ]
    show_table(("schedule", "cron", "timezone", "topic", "next", "last"), rows)


@app.command()
def show(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """Show one schedule with all its parts, as JSON."""
    show_json(_as_json(_schedules(bootstrap, property).get(name)))


@app.command()
def pause(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """Let a schedule rest.  What would have been due meanwhile is not made up for."""
    _schedules(bootstrap, property).pause(name)
    remark(f"Schedule {name} is paused.")


@app.command()
def resume(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """Let a schedule go on."""
    schedules = _schedules(bootstrap, property)
    schedules.pause(name, paused=False)
    remark(f"Schedule {name} is due next at {_time(schedules.get(name).next_due_ms)}.")


@app.command()
def remove(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """Remove a schedule."""
    _schedules(bootstrap, property).remove(name)
    remark(f"Schedule {name} is removed.")


@app.command()
def run(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """Send a schedule's record now, whatever the time is."""
    _schedules(bootstrap, property).run(name)
    remark(f"Schedule {name} was run.")


def _next(schedule: "Schedule") -> str:
    return "paused" if schedule.is_paused else _time(schedule.next_due_ms)


def _time(moment_ms: int | None) -> str:
    return "-" if moment_ms is None else datetime.fromtimestamp(moment_ms / 1000).astimezone().isoformat(timespec="minutes")


def _as_json(schedule: "Schedule") -> dict[str, Any]:
    times = {"next_due_ms": schedule.next_due_ms, "last_due_ms": schedule.last_due_ms, "fired": schedule.fired}
    return {"name": schedule.name, **schedule.parts, **times}
