"""`headrace group`: who reads what, how far behind, and from where on."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Properties,
    Yes,
    chosen_partitions,
    existing_topic,
    open_admin,
)
from headrace.cli.failure import Failure, sentence_of
from headrace.cli.groups.reset import Shift, plan_reset, reset_position
from headrace.cli.output import confirm, remark, show_json, show_table

if TYPE_CHECKING:
    from headrace.client.admin.admin import Admin
    from headrace.client.admin.descriptions import GroupDescription
    from headrace.model.identity import TopicPartition

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Consumer groups: members, lag, and where they read on.")

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]


@app.command("list")
def list_groups(as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """List the consumer groups."""
    with open_admin(bootstrap, property) as admin:
        groups = admin.group_listings()
    rows = [{"group": group.name, "state": group.state, "type": group.protocol, "simple": group.simple} for group in groups]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(("group", "state", "type", "simple"), [tuple(row.values()) for row in rows])
    else:
        remark("There are no consumer groups.")


@app.command(epilog="Example: [bold]headrace group describe billing[/bold]")
def describe(
    group: GroupName, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None
) -> None:
    """Show a group's state, members and what each of them reads."""
    with open_admin(bootstrap, property) as admin:
        found = _existing_group(admin, group)
    members = [
        {
            "member": member.id,
            "client": member.client_id,
            "host": member.host,
            "instance": member.instance_id,
            "partitions": [str(at) for at in member.partitions],
        }
        for member in found.members
    ]
    facts = {"group": group, "state": found.state, "type": found.protocol, "assignor": found.assignor or None}
    if as_json:
        show_json({**facts, "coordinator": found.coordinator, "members": members})
        return
    show_table(("group", "state", "type", "assignor", "members"), [(*facts.values(), len(members))])
    if members:
        show_table(("member", "client", "host", "instance", "partitions"), [tuple(member.values()) for member in members])


def _existing_group(admin: "Admin", group: str) -> "GroupDescription":
    from headrace.client.errors import GroupNotFound

    try:
        return admin.group(group)
    except GroupNotFound:
        raise Failure(f"there is no group {group}. `headrace group list` shows those there are.") from None


@app.command(epilog="Example: [bold]headrace group lag billing --json[/bold]")
def lag(group: GroupName, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """Show how far behind the ends of its partitions a group is."""
    with open_admin(bootstrap, property) as admin:
        committed = admin.committed(group)
        if not committed:
            raise Failure(f"group {group} has committed no offsets.")
        ends = {at: end or 0 for at, end in admin.find_offsets(dict.fromkeys(committed, "latest")).items()}
    rows: list[dict[str, Any]] = [
        {
            "topic": at.topic,
            "partition": at.partition,
            "committed": offset,
            "end": ends[at],
            "lag": max(0, ends[at] - offset),
        }
        for at, offset in sorted(committed.items())
    ]
    if as_json:
        show_json({"group": group, "total_lag": sum(row["lag"] for row in rows), "partitions": rows})
        return
    show_table(("topic", "partition", "committed", "end", "lag"), [tuple(row.values()) for row in rows], title=group)
    print(f"Total lag: {sum(row['lag'] for row in rows):,}")


@app.command(epilog="Example: [bold]headrace group reset billing --topic orders --to 2026-05-01T00:00:00Z --execute[/bold]")
def reset(
    group: GroupName,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="A topic, or TOPIC:PARTITION; may be repeated. All that have offsets if not given."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="PLACE", help="earliest, latest, an offset, or an ISO timestamp.")
    ] = None,
    by: Annotated[int | None, typer.Option("--by", help="Shift by this many records: forward, or back when negative.")] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without this the plan is only shown.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Move the offsets from which a group reads on.

    Shows the plan; --execute carries it out.  The group must have no members.
    """
    position = reset_position(to, by)
    with open_admin(bootstrap, property) as admin:
        committed = admin.committed(group)
        chosen = _chosen_partitions(admin, topic, committed)
        if not chosen:
            raise Failure(f"group {group} has committed no offsets: name the topics with --topic.")
        if isinstance(position, Shift) and (missing := sorted(set(chosen) - set(committed))):
            raise Failure(
                f"group {group} has committed nothing for {missing[0].topic} partition {missing[0].partition}, "
                "so it cannot be shifted: use --to."
            )
        plan = plan_reset(admin, chosen, committed, position)
        if execute:
            _require_no_members(admin, group)
            admin.set_offsets(group, plan)
    rows = [
        {"topic": at.topic, "partition": at.partition, "from": committed.get(at), "to": offset}
        for at, offset in sorted(plan.items())
    ]
    if as_json:
        show_json({"group": group, "executed": execute, "partitions": rows})
        return
    show_table(("topic", "partition", "from", "to"), [tuple(row.values()) for row in rows], title=group)
    remark("Done." if execute else "Nothing was changed. Re-run with --execute to apply.")


def _chosen_partitions(
    admin: "Admin", topics: list[str] | None, committed: "dict[TopicPartition, int]"
) -> "list[TopicPartition]":
    from headrace.model.identity import TopicPartition

    if not topics:
        return sorted(committed)
    chosen: set[TopicPartition] = set()
    for text in topics:
        name, colon, number = text.partition(":")
        found = existing_topic(admin, name)
        if colon and not number.isdigit():
            raise Failure(f"{name} has no partition {number or '(empty)'}; it has {len(found.partitions)}.")
        chosen |= {TopicPartition(name, each) for each in chosen_partitions(found, int(number) if colon else None)}
    return sorted(chosen)


def _require_no_members(admin: "Admin", group: str) -> None:
    """Members would commit over what is set here, so the coordinator refuses; this says so in better words."""
    from headrace.client.errors import GroupNotFound

    try:
        members = admin.group(group).members
    except GroupNotFound:
        return  # its first offsets make it
    if members:
        count = f"{len(members)} member{'s' if len(members) > 1 else ''}"
        raise Failure(f"group {group} has {count}: stop them, then reset. `headrace group describe {group}` shows who they are.")


@app.command(epilog="Example: [bold]headrace group delete billing --yes[/bold]")
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="The groups to delete.")],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Delete groups and the offsets they committed.  They must have no members."""
    from headrace.client.errors import BrokerError

    failures: list[str] = []
    with open_admin(bootstrap, property) as admin:
        confirm(f"Delete {', '.join(groups)} and the committed offsets?", yes=yes)
        for group in groups:
            try:
                admin.delete_group(group)
                remark(f"Deleted {group}.")
            except BrokerError as error:
                failures.append(sentence_of(error))
    if failures:
        raise Failure("\n".join(failures))
