"""`headrace topic`: create, look at, change, delete and empty topics."""

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.cluster.reassigning import Throttle, change_replication_factor
from headrace.cli.connection import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Properties,
    TopicName,
    Yes,
    chosen_partitions,
    existing_topic,
    key_values,
    open_admin,
)
from headrace.cli.failure import Failure
from headrace.cli.output import confirm, remark, show_json, show_table
from headrace.cli.topics.description import describe_partitions, describe_settings

if TYPE_CHECKING:
    from headrace.client.admin.admin import Admin
    from headrace.client.admin.descriptions import TopicDescription

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Create, look at, change, delete and empty topics.")

# Beyond this librdkafka does not even ask the broker.
PARTITIONS_MAX = 100_000

Settings = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A topic setting (see docs/settings.md); may be repeated."),
]


@app.command(epilog="Example: [bold]headrace topic create orders --partitions 12 --config retention.ms=86400000[/bold]")
def create(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The new topic's name.")],
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, max=PARTITIONS_MAX, help="How many; the broker's default if not given."),
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", min=1, help="Copies of each partition.")
    ] = None,
    config: Settings = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="A topic that is already there is no failure.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Create a topic."""
    from headrace.client.errors import TopicExists

    settings = key_values(config, "--config")
    with open_admin(bootstrap, property) as admin:
        try:
            admin.create_topic(topic, partitions=partitions, replication=replication_factor, settings=settings)
        except TopicExists:
            if not if_not_exists:
                raise
            remark(f"{topic} is already there.")
            return
    remark(f"Created {topic}.")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also the topics that the broker keeps for itself.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """List the topics."""
    with open_admin(bootstrap, property) as admin:
        topics = admin.topics(internal=internal)
    rows = [
        {"topic": name, "partitions": len(found.partitions), "replication_factor": _replication_factor(found)}
        for name, found in topics.items()
    ]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(("topic", "partitions", "replication factor"), [tuple(row.values()) for row in rows])
    else:
        remark("There are no topics, or none that you may see. Create one with `headrace topic create NAME`.")


def _replication_factor(found: "TopicDescription") -> int:
    return max((len(partition.replicas) for partition in found.partitions), default=0)


@app.command(epilog="Example: [bold]headrace topic describe orders --all-settings[/bold]")
def describe(
    topic: TopicName,
    all_settings: Annotated[bool, typer.Option("--all-settings", help="Every setting, not only those that were set.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Show a topic's partitions, their offsets and the topic's settings."""
    with open_admin(bootstrap, property) as admin:
        partitions = describe_partitions(admin, existing_topic(admin, topic))
        settings = describe_settings(admin, topic, everything=all_settings)
    if as_json:
        show_json({"topic": topic, "partitions": partitions, "settings": settings})
        return
    columns = ("partition", "leader", "replicas", "in sync", "start offset", "end offset", "records at most")
    show_table(columns, [tuple(row.values()) for row in partitions], title=topic)
    if settings:
        show_table(("setting", "value", "set by"), [(row["name"], row["value"], row["source"]) for row in settings])


@app.command(
    epilog="Example: [bold]headrace topic alter orders --partitions 24 --config cleanup.policy=compact --unset flush.ms[/bold]"
)
def alter(
    topic: TopicName,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, max=PARTITIONS_MAX, help="The new count; it can only grow.")
    ] = None,
    config: Settings = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Back to the default; may be repeated.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", min=1, help="Copies of each partition; waits until they are made.")
    ] = None,
    throttle: Throttle = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Change a topic's settings, its replication factor or its partitions (upwards), while it is in use."""
    settings = key_values(config, "--config")
    if not (partitions or settings or unset or replication_factor):
        raise typer.BadParameter("Say what to change: --partitions, --replication-factor, --config or --unset.")
    with open_admin(bootstrap, property) as admin:
        existing_topic(admin, topic)
        if settings or unset:
            admin.change_settings(topic, {**settings, **dict.fromkeys(unset or [])})
        if partitions:
            admin.add_partitions(topic, partitions)
    if replication_factor:
        change_replication_factor(bootstrap, topic, replication_factor, throttle)
    remark(f"Changed {topic}.")


@app.command(epilog="Example: [bold]headrace topic delete orders payments --yes[/bold]")
def delete(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics to delete.")],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Delete topics with everything in them."""
    with open_admin(bootstrap, property) as admin:
        for topic in topics:
            existing_topic(admin, topic)
        confirm(f"Delete {', '.join(topics)} and all records in {'it' if len(topics) == 1 else 'them'}?", yes=yes)
        for topic in topics:
            admin.delete_topic(topic)
            remark(f"Deleted {topic}.")


def _require_offset(admin: "Admin", topic: str, partitions: list[int], offset: int) -> None:
    from headrace.model.identity import TopicPartition

    for at, end in admin.find_offsets({TopicPartition(topic, number): "latest" for number in partitions}).items():
        if end is not None and offset > end:
            raise Failure(
                f"{topic} partition {at.partition} ends at offset {end}; --before takes 0 to {end} there, not {offset}."
            )


@app.command(epilog="Example: [bold]headrace topic purge orders --partition 0 --before 1000 --yes[/bold]")
def purge(
    topic: TopicName,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Only this partition.")] = None,
    before: Annotated[int | None, typer.Option("--before", min=0, help="Only records below this offset.")] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Remove a topic's records and keep the topic."""
    where = topic if partition is None else f"{topic} partition {partition}"
    with open_admin(bootstrap, property) as admin:
        chosen = chosen_partitions(existing_topic(admin, topic), partition)
        if before is not None:
            _require_offset(admin, topic, chosen, before)
        confirm(f"Remove {'all records' if before is None else f'the records below offset {before}'} of {where}?", yes=yes)
        starts = admin.delete_records(topic, dict.fromkeys(chosen, before))
    rows = [{"partition": number, "start_offset": offset} for number, offset in starts.items()]
    if as_json:
        show_json({"topic": topic, "partitions": rows})
    else:
        show_table(("partition", "start offset"), [tuple(row.values()) for row in rows], title=f"Purged {topic}")
