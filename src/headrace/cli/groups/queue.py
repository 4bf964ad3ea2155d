"""`headrace queue`: topics as queues: what is to be done, what is under way, what waits and what will not do."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Properties,
    TopicName,
    connection_settings,
    open_admin,
    position_given,
    require_reachable,
)
from headrace.cli.failure import Failure
from headrace.cli.groups.queue_runner import run_for_each_job
from headrace.cli.output import cell_text, counted, iso_time, remark, show_json, show_table
from headrace.cli.topics.delays import duration_ms, moment_ms

if TYPE_CHECKING:
    from headrace.client.admin.wire_admin import WireAdmin
    from headrace.client.queue.depth import Depth

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Topics as queues: put jobs, work them off, see what is ready, in flight, delayed and dead.",
)
app.command("work", epilog="Example: [bold]headrace queue work jobs --group workers -- ./resize.sh[/bold]")(run_for_each_job)

Group = Annotated[
    str, typer.Option("--group", "-g", help="Whose queue it is: the workers that share the jobs.", show_default=False)
]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.", show_default=False)]
COLUMNS = ("queue", "group", "ready", "in flight", "resting", "delayed", "dead", "oldest", "paused")
SHOWN_SETTINGS = ("share.", "headrace.share.", "errors.deadletterqueue.")


@app.command("list")
def list_queues(as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """List the queues: each topic that a share group works on, and how full it is for that group."""
    from headrace.client.admin.share_groups import share_groups, topics_of
    from headrace.client.queue.depth import depth_by

    with _wire(bootstrap, property) as wire:
        found = [(topic, group, depth_by(wire, topic, group)) for group in share_groups(wire) for topic in topics_of(wire, group)]
    if as_json:
        show_json([_facts(*each) for each in found])
    elif found:
        show_table(COLUMNS, [_row(*each) for each in found])
    else:
        remark("There are no queues: no share group has worked on a topic yet.")


@app.command(epilog="Example: [bold]headrace queue describe jobs --group workers[/bold]")
def describe(
    topic: TopicName, group: Group, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None
) -> None:
    """Show one queue: its numbers, who works on it, why it is paused, and the settings of its group.

    Ready jobs wait for a worker, those in flight have one, resting ones failed and come again after their backoff, delayed ones
    wait for their time, dead ones are in the dead-letter topic (`headrace dead-letter` shows and redrives them).  Settings marked
    with * are the group's own.
    """
    from headrace.client.admin.group_settings import group_settings
    from headrace.client.admin.share_groups import member_count
    from headrace.client.queue.depth import depth_by

    with _wire(bootstrap, property) as wire:
        depth, members = depth_by(wire, topic, group), member_count(wire, group)
        settings = {name: each for name, each in group_settings(wire, group).items() if name.startswith(SHOWN_SETTINGS)}
    if as_json:
        values = {name: value for name, (value, _) in settings.items()}
        show_json({**_facts(topic, group, depth), "workers": members, "settings": values})
        return
    show_table((*COLUMNS, "workers"), [(*_row(topic, group, depth), members)])
    rows = [(f"{name}{' *' if is_own else ''}", value) for name, (value, is_own) in sorted(settings.items())]
    show_table(("setting", "value"), rows)


@app.command(epilog="Example: [bold]headrace queue peek jobs --group workers -n 5[/bold]")
def peek(
    topic: TopicName,
    group: Group,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many at most.")] = 10,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Show the jobs from the first one on that is not done, and take none.

    Some of those that follow it may be done already, or somebody's.
    """
    from headrace.client.queue.depth import next_jobs

    with _wire(bootstrap, property) as wire:
        found = next_jobs(wire, topic, group, count)
    rows = [
        {
            "partition": partition,
            "offset": record.offset,
            "time": iso_time(record.timestamp),
            "key": _text(record.key),
            "value": _text(record.value),
        }
        for partition, record in found
    ]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(("partition", "offset", "time", "key", "value"), [tuple(row.values()) for row in rows])
    else:
        remark(f"Nothing is to be done in {topic} for {group}.")


@app.command(epilog="Example: [bold]headrace queue put jobs 'resize 7' --delay 15m[/bold]")
def put(
    topic: TopicName,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[VALUE]...", help="The jobs; without any, each line of standard input is one.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Their key; under it jobs that wait can be cancelled.")] = None,
    delay: Annotated[
        str | None, typer.Option("--delay", metavar="DURATION", help="Nobody gets them before: 500ms, 90s, 15m, 2h, 7d.")
    ] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Nobody gets them before this date and time.")] = None,
    ttl: Annotated[
        str | None, typer.Option("--ttl", metavar="DURATION", help="Nobody gets them later than so long after now.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Put jobs into a queue.  A topic that does not exist is made, with delays."""
    from headrace.client.queue.queue import Queue

    require_reachable(bootstrap, property)
    jobs = values if values else [line.rstrip("\n") for line in sys.stdin]
    more: dict[str, Any] = {
        "key": key,
        "delay": None if delay is None else duration_ms("--delay", delay) / 1000,
        "at": None if at is None else moment_ms("--at", at),
        "ttl": None if ttl is None else duration_ms("--ttl", ttl) / 1000,
    }
    with Queue(topic, bootstrap=bootstrap, keys=str, values=str, librdkafka=connection_settings(property)) as queue:
        if values or any(each is not None for each in more.values()):
            for job in jobs:
                queue.put(job, **more)
        else:
            queue.put_many(jobs)
    remark(f"{counted(len(jobs), 'job')} put into {topic}.")


@app.command(epilog="Example: [bold]headrace queue pause workers[/bold]")
def pause(group: GroupName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """Give a group no more jobs.  What its workers have they may finish; what is put waits."""
    from headrace.client.admin.group_settings import change_group_settings

    with _wire(bootstrap, property) as wire:
        change_group_settings(wire, group, {"headrace.share.paused": "true"})
    remark(f"{group} gets no jobs until `headrace queue resume {group}`.")


@app.command(epilog="Example: [bold]headrace queue resume workers[/bold]")
def resume(group: GroupName, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """Give a group jobs again, whoever paused it: somebody by hand, or its breaker."""
    from headrace.client.admin.group_settings import change_group_settings

    with _wire(bootstrap, property) as wire:
        now_ms = time.time_ns() // 1_000_000
        change_group_settings(wire, group, {"headrace.share.paused": "false", "headrace.share.breaker.resumed.ms": str(now_ms)})
    remark(f"{group} gets jobs.")


@app.command(epilog="Example: [bold]headrace queue reset jobs --group workers --to earliest --execute[/bold]")
def reset(
    topic: TopicName,
    group: Group,
    to: Annotated[str, typer.Option("--to", metavar="PLACE", help="earliest, latest, an offset, or an ISO timestamp.")],
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without this the plan is only shown.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Move where a group goes on in a topic: back, so that it does jobs again, or forward, past those that it is not to do.

    Shows the plan; --execute carries it out.  The group must have no workers.
    """
    from headrace.client.admin.share_groups import member_count, set_share_offsets

    position = position_given(to)
    with open_admin(bootstrap, property) as admin, _wire(bootstrap, property) as wire:
        offsets = _offsets(admin, topic, position)
        if execute:
            if members := member_count(wire, group):
                raise Failure(f"group {group} has {counted(members, 'worker')}: stop them, then reset.")
            set_share_offsets(wire, group, topic, offsets)
    show_table(("topic", "partition", "to"), [(topic, partition, offset) for partition, offset in sorted(offsets.items())])
    remark("Done." if execute else "Nothing was changed. Re-run with --execute to apply.")


def _offsets(admin: Any, topic: str, position: Any) -> dict[int, int]:
    from headrace.cli.connection import existing_topic
    from headrace.cli.groups.reset import plan_reset
    from headrace.model.identity import TopicPartition

    places = [TopicPartition(topic, each.index) for each in existing_topic(admin, topic).partitions]
    return {at.partition: offset for at, offset in plan_reset(admin, places, {}, position).items()}


@contextmanager
def _wire(bootstrap: str, properties: list[str] | None) -> "Iterator[WireAdmin]":
    from headrace.client.admin.wire_admin import WireAdmin

    require_reachable(bootstrap, properties)
    with WireAdmin(bootstrap, connection_settings(properties)) as wire:
        yield wire


def _row(topic: str, group: str, depth: "Depth") -> tuple[object, ...]:
    numbers = (depth.ready, depth.in_flight, depth.resting, depth.delayed, depth.dead)
    oldest = None if depth.oldest is None else f"{depth.oldest.total_seconds():,.0f} s"
    return (topic, group, *numbers, oldest, depth.paused or "no")


def _facts(topic: str, group: str, depth: "Depth") -> dict[str, Any]:
    return {
        "queue": topic,
        "group": group,
        "ready": depth.ready,
        "in_flight": depth.in_flight,
        "resting": depth.resting,
        "delayed": depth.delayed,
        "dead": depth.dead,
        "oldest_seconds": None if depth.oldest is None else depth.oldest.total_seconds(),
        "paused": depth.paused or None,
    }


def _text(data: bytes | None) -> str:
    return cell_text(None if data is None else data.decode("utf-8", "backslashreplace"))
