"""`headrace topic`: create, look at, change, delete and empty topics."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.cluster.reassigning import Throttle, change_replication_factor
from headrace.cli.connection import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    AsJson,
    Bootstrap,
    Properties,
    TopicName,
    Yes,
    admin_client,
    attempt,
    existing_topic,
    key_values,
    result_of,
    sentence,
)
from headrace.cli.failure import Failure
from headrace.cli.output import confirm, remark, show_json, show_table
from headrace.cli.topics.description import describe_partitions, describe_settings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

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
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    settings = key_values(config, "--config")
    admin = admin_client(bootstrap, property)
    new = NewTopic(topic, num_partitions=partitions or -1, replication_factor=replication_factor or -1, config=settings)
    try:
        admin.create_topics([new], request_timeout=REQUEST_TIMEOUT_S)[topic].result()
    except KafkaException as error:
        if if_not_exists and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            remark(f"{topic} is already there.")
            return
        raise Failure(f"creating {topic} failed: {sentence(error)}") from None
    remark(f"Created {topic}.")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also the topics that the broker keeps for itself.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """List the topics."""
    admin = admin_client(bootstrap, property)
    metadata = attempt("listing the topics", lambda: admin.list_topics(timeout=REQUEST_TIMEOUT_S))
    rows = [
        {"topic": name, "partitions": len(found.partitions), "replication_factor": _replication_factor(found)}
        for name, found in sorted(metadata.topics.items())
        if internal or not name.startswith("__")
    ]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(("topic", "partitions", "replication factor"), [tuple(row.values()) for row in rows])
    else:
        remark("There are no topics. Create one with `headrace topic create NAME`.")


def _replication_factor(found: Any) -> int:
    return max((len(partition.replicas) for partition in found.partitions.values()), default=0)


@app.command(epilog="Example: [bold]headrace topic describe orders --all-settings[/bold]")
def describe(
    topic: TopicName,
    all_settings: Annotated[bool, typer.Option("--all-settings", help="Every setting, not only those that were set.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Show a topic's partitions, their offsets and the topic's settings."""
    admin = admin_client(bootstrap, property)
    partitions = describe_partitions(admin, topic, existing_topic(admin, topic))
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
    admin = admin_client(bootstrap, property)
    existing_topic(admin, topic)
    if settings or unset:
        _alter_settings(admin, topic, settings, unset or [])
    if partitions:
        _grow(admin, topic, partitions)
    if replication_factor:
        change_replication_factor(bootstrap, topic, replication_factor, throttle)
    remark(f"Changed {topic}.")


def _alter_settings(admin: "AdminClient", topic: str, settings: dict[str, str], unset: list[str]) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()]
    changes += [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in unset]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    for future in admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S).values():
        result_of(future, f"changing the settings of {topic}")


def _grow(admin: "AdminClient", topic: str, partitions: int) -> None:
    from confluent_kafka.admin import NewPartitions

    for future in admin.create_partitions([NewPartitions(topic, partitions)], request_timeout=REQUEST_TIMEOUT_S).values():
        result_of(future, f"growing {topic} to {partitions} partitions")


@app.command(epilog="Example: [bold]headrace topic delete orders payments --yes[/bold]")
def delete(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics to delete.")],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Delete topics with everything in them."""
    admin = admin_client(bootstrap, property)
    for topic in topics:
        existing_topic(admin, topic)
    confirm(f"Delete {', '.join(topics)} and all records in {'it' if len(topics) == 1 else 'them'}?", yes=yes)
    futures = admin.delete_topics(topics, request_timeout=REQUEST_TIMEOUT_S)
    for topic, future in futures.items():
        result_of(future, f"deleting {topic}")
        remark(f"Deleted {topic}.")


def _require_offset(admin: "AdminClient", topic: str, partitions: list[int], offset: int) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in partitions}
    for at, future in admin.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S).items():
        end = result_of(future, f"asking for the end of {topic} partition {at.partition}").offset
        if offset > end:
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
    from confluent_kafka import OFFSET_END, TopicPartition

    admin = admin_client(bootstrap, property)
    present = sorted(existing_topic(admin, topic).partitions)
    if partition is not None and partition not in present:
        raise Failure(f"{topic} has no partition {partition}; it has {len(present)}.")
    chosen = present if partition is None else [partition]
    where = topic if partition is None else f"{topic} partition {partition}"
    if before is not None:
        _require_offset(admin, topic, chosen, before)
    confirm(f"Remove {'all records' if before is None else f'the records below offset {before}'} of {where}?", yes=yes)
    wanted = [TopicPartition(topic, number, OFFSET_END if before is None else before) for number in chosen]
    futures = admin.delete_records(wanted, request_timeout=REQUEST_TIMEOUT_S)
    rows = [
        {"partition": at.partition, "start_offset": result_of(future, f"purging {topic} partition {at.partition}").low_watermark}
        for at, future in futures.items()
    ]
    if as_json:
        show_json({"topic": topic, "partitions": rows})
    else:
        show_table(("partition", "start offset"), [tuple(row.values()) for row in rows], title=f"Purged {topic}")
