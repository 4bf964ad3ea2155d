"""`headrace dead-letter`: what is parked, why, and back to where it came from."""

from collections.abc import Container, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Yes, connection_settings, require_reachable
from headrace.cli.failure import Failure
from headrace.cli.output import confirm, iso_time, remark, show_json, show_table

app = typer.Typer(
    help="Parked records: why they failed, and sending them back.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="A dead-letter topic, such as orders.dead-letter.")]
PartitionOption = Annotated[int, typer.Option("--partition", min=0, help="The partition of one record in the dead-letter topic.")]
OffsetOption = Annotated[int, typer.Option("--offset", min=0, help="The offset of one record in the dead-letter topic.")]
VALUE_CHARACTERS_MAX = 60
NAMED_MAX = 10


@app.command("list")
def list_parked(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="A dead-letter topic; without it, all of them are counted.")
    ] = None,
    suffix: Annotated[str, typer.Option("--suffix", help="How the names of dead-letter topics end.")] = ".dead-letter",
    everything: Annotated[bool, typer.Option("--all", help="Also the records that a redrive has sent back.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List dead-letter topics, or the records parked in one.

    [bold]headrace dead-letter list[/bold]
    [bold]headrace dead-letter list orders.dead-letter[/bold]
    """
    from headrace import Admin
    from headrace.client.deadletter.redrive import dead_letter_topics, parked

    require_reachable(bootstrap)
    if topic is None:
        counts = dead_letter_topics(bootstrap, suffix, librdkafka=connection_settings())
        if as_json:
            show_json([{"topic": name, "waiting": count} for name, count in counts.items()])
        elif counts:
            show_table(["topic", "waiting"], counts.items())
        else:
            remark(f"There is no topic whose name ends in {suffix}.")
        return
    with _named(topic):
        letters = list(parked(bootstrap, topic, waiting_only=not everything, librdkafka=connection_settings()))
    with Admin(bootstrap, librdkafka=connection_settings()) as admin:
        topics = admin.topics()
    if as_json:
        show_json([_facts(letter, topics) for letter in letters])
    elif not letters:
        remark(f"Nothing waits in {topic}." + ("" if everything else " What was sent back is shown with --all."))
    else:
        columns = [
            "partition",
            "offset",
            "from",
            "cause",
            "reason",
            "attempts",
            "last failed at",
            "key",
            "cannot go back because",
        ]
        show_table(columns, (_row(letter, topics) for letter in letters))


@app.command()
def show(
    topic: TopicArgument,
    partition: PartitionOption,
    offset: OffsetOption,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show one parked record whole: its bytes, headers, reason and stack.

    [bold]headrace dead-letter show orders.dead-letter --partition 0 --offset 12[/bold]
    """
    from headrace.client.deadletter.redrive import one_parked

    require_reachable(bootstrap)
    with _named(topic):
        letter = one_parked(bootstrap, topic, partition, offset, librdkafka=connection_settings())
    facts = _facts(letter)
    if as_json:
        show_json({**facts, "stack": letter.stack})
        return
    # What a record says nothing of, since somebody else has put it there, is shown as absent.
    show_table(["field", "value"], [(name.replace("_", " "), None if value == "" else value) for name, value in facts.items()])
    print(letter.stack or "(no stack was kept)")


@app.command()
def redrive(
    topic: TopicArgument,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="Send to this topic instead of where each came from.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Send back no more than this many.")] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="Pass over records that have been sent back this often already.")
    ] = 3,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="With --offset: only this one record.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="With --partition: only this one record.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also from a topic whose name does not end in .dead-letter and that holds no letters.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Send parked records back to the topics they came from, each once.

    Records that do not say where they came from, or have been sent back too often, are passed over and named; they stay where
    they are and wait for another redrive, and can be sent one by one with --partition, --offset and --to. The exit code is 1 if
    any stay.

    [bold]headrace dead-letter redrive orders.dead-letter --yes[/bold]
    """
    if (partition is None) != (offset is None):
        raise typer.BadParameter("--partition and --offset go together: they name one record.")
    from headrace.client.deadletter.redrive import Redriven, one_parked, redrive_one
    from headrace.client.deadletter.redrive import redrive as redrive_all

    require_reachable(bootstrap)
    if partition is not None and offset is not None:
        with _named(topic):
            letter = one_parked(bootstrap, topic, partition, offset, librdkafka=connection_settings())
        if not (to or letter.origin_topic):
            raise Failure(f"{topic}[{partition}]@{offset} does not say where it came from. Name a topic with --to.")
        _require_target(bootstrap, to or letter.origin_topic)
        confirm(f"Send {topic}[{partition}]@{offset} back to {to or letter.origin_topic}?", yes=yes)
        redrive_one(bootstrap, letter, to=to, librdkafka=connection_settings())
        done = Redriven(sent=1, skipped=0)
    else:
        if not force:
            _require_letters(bootstrap, topic)
        if to is not None:
            _require_target(bootstrap, to)
        confirm(f"Send what is parked in {topic} back to {to or 'where it came from'}?", yes=yes)
        stayed = _Stayed()
        with _named(topic):
            done = redrive_all(
                bootstrap, topic, to=to, limit=limit, repeats=repeats, on_skipped=stayed.name, librdkafka=connection_settings()
            )
        stayed.count()
    if as_json:
        show_json({"topic": topic, "sent": done.sent, "skipped": done.skipped})
    else:
        stay = " 1 stays where it is." if done.skipped == 1 else f" {done.skipped} stay where they are." if done.skipped else ""
        remark(f"{done.sent} {'record' if done.sent == 1 else 'records'} sent back.{stay}")
    if done.skipped:
        raise typer.Exit(1)


class _Stayed:
    """Names the first records that stay, and counts the others."""

    def __init__(self) -> None:
        self._total = 0

    def name(self, skipped: object) -> None:
        self._total += 1
        if self._total <= NAMED_MAX:
            remark(f"Not sent back: {skipped}.")

    def count(self) -> None:
        if self._total > NAMED_MAX:
            remark(f"And {self._total - NAMED_MAX:,} more.")


def _require_letters(bootstrap: str, topic: str) -> None:
    """Refuse to read all of a topic that is somebody's data, by its name and its first record."""
    from headrace import Admin, Consumer
    from headrace.client.deadletter.redrive import SUFFIX, Parked

    with Admin(bootstrap, librdkafka=connection_settings()) as admin:
        topics = admin.topics()
    if topic not in topics:
        near = get_close_matches(topic, [name for name in topics if name.endswith(SUFFIX)] or list(topics), n=1)
        hint = f"Did you mean {near[0]}?" if near else "`headrace dead-letter list` shows the topics there are."
        raise Failure(f"topic '{topic}' does not exist. {hint}")
    if topic.endswith(SUFFIX):
        return
    with Consumer[bytes, bytes](topic, bootstrap=bootstrap, librdkafka=connection_settings()) as consumer:
        first = next(consumer.to_end(), None)
    if first is not None and not Parked.of(first).origin_topic:
        near = [name for name in (topic + SUFFIX,) if name in topics]
        hint = f"Did you mean {near[0]}? " if near else ""
        raise Failure(f"{topic} is not a dead-letter topic. {hint}Use --force to read all of it nevertheless.")


def _require_target(bootstrap: str, target: str) -> None:
    """Before anybody is asked whether to send something there."""
    from headrace import Admin
    from headrace.client.deadletter.redrive import require_target

    with Admin(bootstrap, librdkafka=connection_settings()) as admin:
        require_target(target, admin.topic_names())


@contextmanager
def _named(topic: str) -> Iterator[None]:
    """What to try next when a topic or a record of it is not there."""
    from headrace.client.errors import InvalidArgument, TopicNotFound

    try:
        yield
    except TopicNotFound as error:
        raise Failure(f"{error}. `headrace dead-letter list` shows the topics there are.") from None
    except InvalidArgument as error:
        raise Failure(f"{error}. `headrace dead-letter list {topic} --all` shows those there are.") from None


def _facts(letter: Any, topics: Container[str] | None = None) -> dict[str, Any]:
    """With the `topics` there are, also why a redrive would pass it over, or null."""
    from headrace.client.deadletter.redrive import why_it_stays

    record = letter.record
    obstacle = {} if topics is None else {"cannot_go_back_because": why_it_stays(letter, topics)}
    return {
        "partition": record.partition,
        "offset": record.offset,
        "parked_at": iso_time(record.timestamp),
        "origin": _origin(letter),
        "group": letter.group,
        "cause": letter.cause,
        "reason": letter.reason,
        "attempts": _attempts(letter),
        "first_failed_at": letter.first_failed_at,
        "last_failed_at": letter.last_failed_at,
        "key": _text(record.raw_key),
        "value": _text(record.raw_value),
        "headers": {name: _text(value) for name, value in letter.headers_for_origin()[:-1]},
        **obstacle,
    }


def _row(letter: Any, topics: Container[str]) -> list[object]:
    from headrace.client.deadletter.redrive import why_it_stays

    record = letter.record
    key = _text(record.raw_key)
    return [
        record.partition,
        record.offset,
        _origin(letter),
        letter.cause,
        letter.reason[:VALUE_CHARACTERS_MAX],
        _attempts(letter),
        letter.last_failed_at,
        key[:VALUE_CHARACTERS_MAX] if key else None,
        why_it_stays(letter, topics),
    ]


def _attempts(letter: Any) -> int | None:
    return letter.attempts if letter.attempts >= 0 else None


def _origin(letter: Any) -> str:
    return f"{letter.origin_topic}[{letter.origin_partition}]@{letter.origin_offset}" if letter.origin_topic else "unknown"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")
