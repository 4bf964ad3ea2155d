"""`headrace group`: who reads what, how far behind, and from where on."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    AsJson,
    Bootstrap,
    Properties,
    Yes,
    admin_client,
    attempt,
    client_properties,
    existing_topic,
    result_of,
)
from headrace.cli.failure import Failure
from headrace.cli.groups.reset import Shift, plan_reset, reset_place
from headrace.cli.output import confirm, remark, show_json, show_table
from headrace.cli.topics.positions import bounds

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Consumer groups: members, lag, and where they read on.")

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]


@app.command("list")
def list_groups(as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """List the consumer groups."""
    admin = admin_client(bootstrap, property)
    listing = result_of(admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S), "listing the groups")
    if listing.errors and not listing.valid:
        raise Failure(f"listing the groups failed: {listing.errors[0]}")
    rows = [
        {
            "group": group.group_id,
            "state": group.state.name.lower(),
            "type": _type_name(group),
            "simple": group.is_simple_consumer_group,
        }
        for group in sorted(listing.valid, key=lambda group: group.group_id)
    ]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(("group", "state", "type", "simple"), [tuple(row.values()) for row in rows])
    else:
        remark("There are no consumer groups.")


def _type_name(group: Any) -> str:
    kind = getattr(group, "type", None)
    return kind.name.lower() if kind is not None else "unknown"


@app.command(epilog="Example: [bold]headrace group describe billing[/bold]")
def describe(
    group: GroupName, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None
) -> None:
    """Show a group's state, members and what each of them reads."""
    admin = admin_client(bootstrap, property)
    (future,) = admin.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S).values()
    found = result_of(future, f"describing {group}")
    _require_known(admin, group, found, client_properties(bootstrap, property))
    members = [
        {
            "member": member.member_id,
            "client": member.client_id,
            "host": member.host,
            "instance": member.group_instance_id,
            "partitions": [f"{at.topic}-{at.partition}" for at in member.assignment.topic_partitions],
        }
        for member in found.members
    ]
    facts = {
        "group": group,
        "state": found.state.name.lower(),
        "type": _type_name(found),
        "assignor": found.partition_assignor or None,
    }
    if as_json:
        show_json({**facts, "coordinator": found.coordinator.id, "members": members})
        return
    show_table(("group", "state", "type", "assignor", "members"), [(*facts.values(), len(members))])
    if members:
        show_table(("member", "client", "host", "instance", "partitions"), [tuple(member.values()) for member in members])


def _require_known(admin: "AdminClient", group: str, found: Any, properties: dict[str, Any]) -> None:
    """A coordinator describes a group it never heard of as dead, without members."""
    if found.state.name == "DEAD" and not found.members and not _committed(admin, group, properties):
        raise Failure(f"there is no group {group}. `headrace group list` shows those there are.")


@app.command(epilog="Example: [bold]headrace group lag billing --json[/bold]")
def lag(group: GroupName, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, property: Properties = None) -> None:
    """Show how far behind the ends of its partitions a group is."""
    admin = admin_client(bootstrap, property)
    committed = _committed(admin, group, client_properties(bootstrap, property))
    if not committed:
        raise Failure(f"group {group} has committed no offsets.")
    ends = bounds(admin, committed, "asking for the ends of the partitions")
    rows: list[dict[str, Any]] = [
        {
            "topic": topic,
            "partition": number,
            "committed": offset,
            "end": ends[topic, number][1],
            "lag": max(0, ends[topic, number][1] - offset),
        }
        for (topic, number), offset in sorted(committed.items())
    ]
    if as_json:
        show_json({"group": group, "total_lag": sum(row["lag"] for row in rows), "partitions": rows})
        return
    show_table(("topic", "partition", "committed", "end", "lag"), [tuple(row.values()) for row in rows], title=group)
    print(f"Total lag: {sum(row['lag'] for row in rows):,}")


def _committed(admin: "AdminClient", group: str, properties: dict[str, Any]) -> dict[tuple[str, int], int]:
    from headrace.client.admin.group_offsets import committed_offsets
    from headrace.model.identity import TopicPartition

    doing = f"asking for the offsets of {group}"
    topics = attempt(doing, lambda: admin.list_topics(timeout=REQUEST_TIMEOUT_S)).topics
    places = [TopicPartition(name, number) for name, topic in sorted(topics.items()) for number in sorted(topic.partitions)]
    found = attempt(doing, lambda: committed_offsets(properties, group, places, REQUEST_TIMEOUT_S))
    return {(place.topic, place.partition): offset for place, offset in found.items()}


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
    place = reset_place(to, by)
    admin = admin_client(bootstrap, property)
    committed = _committed(admin, group, client_properties(bootstrap, property))
    chosen = _chosen_partitions(admin, topic, committed)
    if not chosen:
        raise Failure(f"group {group} has committed no offsets: name the topics with --topic.")
    if isinstance(place, Shift) and (missing := sorted(set(chosen) - set(committed))):
        raise Failure(
            f"group {group} has committed nothing for {missing[0][0]} partition {missing[0][1]}, "
            "so it cannot be shifted: use --to."
        )
    plan = plan_reset(admin, chosen, committed, place)
    if execute:
        _require_no_members(admin, group)
        _alter_offsets(admin, group, plan)
    rows = [{"topic": at[0], "partition": at[1], "from": committed.get(at), "to": offset} for at, offset in sorted(plan.items())]
    if as_json:
        show_json({"group": group, "executed": execute, "partitions": rows})
        return
    show_table(("topic", "partition", "from", "to"), [tuple(row.values()) for row in rows], title=group)
    remark("Done." if execute else "Nothing was changed. Say --execute to do it.")


def _chosen_partitions(
    admin: "AdminClient", topics: list[str] | None, committed: dict[tuple[str, int], int]
) -> list[tuple[str, int]]:
    if not topics:
        return sorted(committed)
    chosen: set[tuple[str, int]] = set()
    for text in topics:
        name, colon, number = text.partition(":")
        present = existing_topic(admin, name).partitions
        if colon and not (number.isdigit() and int(number) in present):
            raise Failure(f"{name} has no partition {number or '(empty)'}; it has {len(present)}.")
        chosen |= {(name, int(number))} if colon else {(name, each) for each in present}
    return sorted(chosen)


def _require_no_members(admin: "AdminClient", group: str) -> None:
    """Members would commit over what is set here, so the coordinator refuses; this says so in better words."""
    (future,) = admin.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S).values()
    if members := result_of(future, f"describing {group}").members:
        count = f"{len(members)} member{'s' if len(members) > 1 else ''}"
        raise Failure(f"group {group} has {count}: stop them, then reset. `headrace group describe {group}` shows who they are.")


def _alter_offsets(admin: "AdminClient", group: str, plan: dict[tuple[str, int], int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    wanted = [TopicPartition(topic, number, offset) for (topic, number), offset in plan.items()]
    request = [ConsumerGroupTopicPartitions(group, wanted)]
    (future,) = admin.alter_consumer_group_offsets(request, request_timeout=REQUEST_TIMEOUT_S).values()
    done = result_of(future, f"resetting {group} (it must have no running members)")
    for at in done.topic_partitions:
        if at.error is not None:
            raise Failure(f"resetting {group} at {at.topic} partition {at.partition} failed: {at.error.str()}")


@app.command(epilog="Example: [bold]headrace group delete billing --yes[/bold]")
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="The groups to delete.")],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Delete groups and the offsets they committed.  They must have no members."""
    admin = admin_client(bootstrap, property)
    confirm(f"Delete {', '.join(groups)} and the committed offsets?", yes=yes)
    failures: list[str] = []
    for group, future in admin.delete_consumer_groups(groups, request_timeout=REQUEST_TIMEOUT_S).items():
        try:
            result_of(future, f"deleting {group}")
            remark(f"Deleted {group}.")
        except Failure as failure:
            failures.append(str(failure))
    if failures:
        raise Failure("\n".join(failures))
