"""Dead letters: tried again, parked, looked at, sent back."""

import json
import re
import time
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace import Admin, Consumer, DeadLetters, InvalidArgument, Producer, Record, Reject, TopicNotFound
from headrace.cli.topics.dead_letter import app
from headrace.client.deadletter import redrive
from tests.support.waiting import stays, until


def reader(bootstrap: str, topic: str, **options: Any) -> Consumer[str, str]:
    return Consumer(topic, bootstrap=bootstrap, group=topic, keys=str, values=str, commit_interval=0.1, **options)


def committed(bootstrap: str, topic: str) -> int:
    with Admin(bootstrap) as admin:
        return sum(admin.committed(topic).values())


def park(bootstrap: str, topic: str, count: int = 3) -> None:
    """Leave `count` records in the dead-letter topic, of keys and headers of their own."""
    with Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, f"v{number}", key=f"k{number}", headers={"trace": str(number)})

    def refuse(record: Record[str, str]) -> None:
        raise Reject(f"number {record.value}")

    with reader(bootstrap, topic) as consumer, consumer.on_message(refuse, dead_letters=DeadLetters()):
        until(lambda: committed(bootstrap, topic) == count)


def test_a_record_that_fails_for_a_while_is_tried_again_and_succeeds(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, "x", key="k")
    attempts: list[float] = []

    def handle(record: Record[str, str]) -> None:
        attempts.append(time.monotonic())
        if len(attempts) < 3:
            raise OSError("not yet")

    with reader(bootstrap, topic) as consumer, consumer.on_message(handle, dead_letters=DeadLetters(backoff=[0.2, 0.4])):
        until(lambda: committed(bootstrap, topic) == 1)

    assert len(attempts) == 3
    assert attempts[1] - attempts[0] >= 0.2
    assert attempts[2] - attempts[1] >= 0.4
    with Admin(bootstrap) as admin:
        assert f"{topic}.dead-letter" not in admin.topics()


def test_a_record_that_keeps_failing_is_parked_with_its_story(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, b"\xffraw", key=b"\xfekey", headers={"trace": "abc"})

    def handle(record: Record[bytes, bytes]) -> None:
        raise ValueError("unknown currency")

    letters = DeadLetters(attempts=3, backoff=0.01)
    with (
        Consumer[bytes, bytes](topic, bootstrap=bootstrap, group=topic, commit_interval=0.1) as consumer,
        consumer.on_message(handle, dead_letters=letters),
    ):
        until(lambda: committed(bootstrap, topic) == 1)

    (letter,) = redrive.parked(bootstrap, f"{topic}.dead-letter")
    assert (letter.record.raw_value, letter.record.raw_key) == (b"\xffraw", b"\xfekey")
    assert letter.record.header("trace") == b"abc"
    assert (letter.origin_topic, letter.origin_partition, letter.origin_offset, letter.group) == (topic, 0, 0, topic)
    assert (letter.cause, letter.reason, letter.attempts) == ("attempts", "ValueError: unknown currency", 3)
    assert "in handle" in letter.stack
    assert letter.first_failed_at < letter.last_failed_at


def test_other_keys_go_on_while_one_is_tried_again(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, "bad", key="sick")
        producer.send(topic, "behind it", key="sick")
        for number in range(20):
            producer.send(topic, str(number), key=f"well-{number}")
    seen: list[str] = []
    healthy_at_failure: list[int] = []

    def handle(record: Record[str, str]) -> None:
        if record.value == "bad":
            healthy_at_failure.append(len(seen))
            raise RuntimeError("sick")
        seen.append(record.value)

    with (
        reader(bootstrap, topic) as consumer,
        consumer.on_message(handle, workers=1, dead_letters=DeadLetters(attempts=2, backoff=1.5)),
    ):
        until(lambda: committed(bootstrap, topic) == 22)

    # One worker, and still all the others were done before the second attempt; the record behind it waited for its turn.
    assert healthy_at_failure == [0, 20]
    assert seen[-1] == "behind it"


def test_a_rejected_record_is_parked_without_another_attempt(bootstrap: str, topic: str) -> None:
    park(bootstrap, topic, 1)

    (letter,) = redrive.parked(bootstrap, f"{topic}.dead-letter")
    assert (letter.cause, letter.attempts, letter.reason) == ("rejected", 1, "Reject: number v0")


@pytest.mark.parametrize("push", [True, False])
def test_a_record_that_does_not_decode_is_parked_and_the_rest_is_read(bootstrap: str, topic: str, push: bool) -> None:
    with Producer(bootstrap) as producer:
        producer.send_many(topic, ["1", "{", "2"])
    seen: list[Any] = []
    with Consumer[bytes, Any](
        topic, bootstrap=bootstrap, group=topic, values="json", commit_interval=0.1, dead_letters=DeadLetters()
    ) as consumer:
        if push:
            with consumer.on_message(lambda record: seen.append(record.value)):
                until(lambda: committed(bootstrap, topic) == 3)
        else:
            seen.extend(record.value for record in consumer.to_end())

    assert sorted(seen) == [1, 2]
    (letter,) = redrive.parked(bootstrap, f"{topic}.dead-letter")
    assert (letter.cause, letter.record.raw_value) == ("undecodable", b"{")


def test_while_the_dead_letter_topic_is_away_the_record_waits_and_the_others_go_on(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, "bad", key="sick")
        for number in range(20):
            producer.send(topic, str(number), key=f"well-{number}")
    seen: list[str] = []

    def handle(record: Record[str, str]) -> None:
        if record.value == "bad":
            raise Reject("no")
        seen.append(record.value)

    away = Producer("127.0.0.1:1", delivery_timeout=0.3, linger=0)
    with (
        reader(bootstrap, topic) as consumer,
        consumer.on_message(handle, dead_letters=DeadLetters(producer=away)) as subscription,
    ):
        until(lambda: len(seen) == 20)
        stays(lambda: committed(bootstrap, topic) == 0, 1.0)
        subscription.stop(5)
    away.close()

    # Nobody has parked it, so the next reader meets it again.
    with reader(bootstrap, topic) as consumer:
        first = consumer.poll(20)
    assert first is not None
    assert first.value == "bad"


def test_a_redrive_sends_each_record_back_once_as_it_was(bootstrap: str, topic: str) -> None:
    park(bootstrap, topic, 3)
    dead = f"{topic}.dead-letter"
    assert redrive.dead_letter_topics(bootstrap)[dead] == 3

    assert redrive.redrive(bootstrap, dead, limit=2).sent == 2
    assert redrive.redrive(bootstrap, dead).sent == 1
    assert redrive.redrive(bootstrap, dead) == redrive.Redriven(sent=0, skipped=0)

    with reader(bootstrap, topic) as consumer:
        back = list(consumer.to_end())
    assert [(record.key, record.value, record.header("trace")) for record in back] == [
        (f"k{n}", f"v{n}", b"%d" % n) for n in range(3)
    ]
    assert all(record.header("headrace-redriven") == b"1" for record in back)
    assert not any(name.startswith("headrace-dead-letter") for record in back for name, _ in record.headers)
    assert redrive.dead_letter_topics(bootstrap)[dead] == 0
    assert len(list(redrive.parked(bootstrap, dead))) == 3
    assert list(redrive.parked(bootstrap, dead, waiting_only=True)) == []


PREFIX = "headrace-dead-letter-"


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({}, "it does not say where it came from"),
        ({PREFIX + "topic": "nowhere"}, "it came from topic 'nowhere', which does not exist"),
        ({PREFIX + "topic": b"\xff not a topic!"}, "it came from topic '\ufffd not a topic!', which does not exist"),
        ({PREFIX + "topic": "TOPIC", "headrace-redriven": "3"}, "it has been sent back 3 times already"),
    ],
)
def test_a_record_that_cannot_go_back_is_passed_over_counted_and_named(
    bootstrap: str, topic: str, headers: dict[str, Any], why: str
) -> None:
    dead = f"{topic}.dead-letter"
    theirs = {name: topic if value == "TOPIC" else value for name, value in headers.items()}
    with Producer(bootstrap) as producer:
        producer.send(dead, "foreign", headers=theirs)
    park(bootstrap, topic, 3)
    told: list[redrive.Skipped] = []

    assert redrive.redrive(bootstrap, dead, limit=3, on_skipped=told.append) == redrive.Redriven(sent=3, skipped=1)
    assert [str(each) for each in told] == [f"{dead}[0]@0: {why}"]
    assert redrive.dead_letter_topics(bootstrap)[dead] == 1
    assert [letter.record.offset for letter in redrive.parked(bootstrap, dead, waiting_only=True)] == [0]
    assert redrive.redrive(bootstrap, dead, on_skipped=told.append) == redrive.Redriven(sent=0, skipped=1)
    assert told[0] == told[1]


def test_what_stayed_is_sent_back_once_its_topic_exists_again(bootstrap: str, topic: str) -> None:
    dead, later = f"{topic}.dead-letter", f"{topic}-later"
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic(topic)
        for number in range(40):
            producer.send(dead, str(number), headers={PREFIX + "topic": later if number % 4 == 1 else topic})
        producer.flush()
        assert redrive.redrive(bootstrap, dead, limit=7) == redrive.Redriven(sent=7, skipped=2)
        assert redrive.redrive(bootstrap, dead) == redrive.Redriven(sent=23, skipped=10)
        admin.create_topic(later)

        assert redrive.redrive(bootstrap, dead) == redrive.Redriven(sent=10, skipped=0)
        assert redrive.redrive(bootstrap, dead) == redrive.Redriven(sent=0, skipped=0)

    for name in (topic, later):
        with Consumer[bytes, bytes](name, bootstrap=bootstrap) as consumer:
            back = [int(record.value) for record in consumer.to_end()]
        assert back == [number for number in range(40) if (number % 4 == 1) == (name == later)]
    assert redrive.dead_letter_topics(bootstrap)[dead] == 0


@pytest.mark.parametrize("name", ["partition", "offset", "attempts"])
@pytest.mark.parametrize("odd", ["²", "9" * 5000, "-1", "x", ""])
def test_numbers_that_are_none_stop_no_redrive(bootstrap: str, topic: str, name: str, odd: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, "origin").result(10)
        producer.send(f"{topic}.dead", "x", headers={PREFIX + "topic": topic, PREFIX + name: odd, "headrace-redriven": odd})

    assert redrive.redrive(bootstrap, f"{topic}.dead").sent == 1


def test_a_record_is_sent_back_as_often_as_was_asked_for(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, "origin").result(10)
        for before in (0, 1, 2):
            producer.send(f"{topic}.dead", "x", headers={PREFIX + "topic": topic, "headrace-redriven": str(before)})

    assert redrive.redrive(bootstrap, f"{topic}.dead", repeats=2) == redrive.Redriven(sent=2, skipped=1)


def test_the_command_names_what_it_passes_over_and_can_send_it_elsewhere(bootstrap: str, topic: str) -> None:
    dead = f"{topic}.dead-letter"
    with Producer(bootstrap) as producer:
        producer.send(dead, "foreign").result(10)
    park(bootstrap, topic, 1)

    result = CliRunner().invoke(app, ["redrive", dead, "--yes", "--bootstrap", bootstrap])
    assert result.exit_code == 1, result.output
    assert f"Not sent back: {dead}[0]@0: it does not say where it came from." in result.output
    assert "1 record sent back. 1 stays where it is." in result.output

    listed = json.loads(CliRunner().invoke(app, ["list", dead, "--json", "--bootstrap", bootstrap]).stdout)
    assert [(each["offset"], each["cannot_go_back_because"]) for each in listed] == [(0, "it does not say where it came from")]
    one = ["redrive", dead, "--yes", "--partition", "0", "--offset", "0", "--bootstrap", bootstrap]
    assert "Name a topic with --to" in str(CliRunner().invoke(app, one).exception)
    assert "1 record sent back." in CliRunner().invoke(app, [*one, "--to", topic]).output
    assert redrive.dead_letter_topics(bootstrap)[dead] == 0


def test_the_command_refuses_a_topic_that_holds_no_dead_letters(bootstrap: str, topic: str) -> None:
    park(bootstrap, topic, 1)
    with Producer(bootstrap) as producer:
        producer.send_many(f"{topic}-mine", [str(number) for number in range(13)]).result(10)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["redrive", *arguments, "--yes", "--bootstrap", bootstrap])

    assert f"{topic} is not a dead-letter topic. Did you mean {topic}.dead-letter?" in str(run(topic).exception)
    assert f"Did you mean {topic}.dead-letter?" in str(run(f"{topic}.dead-leter").exception)
    refused = run(f"{topic}-mine")
    assert "Use --force" in str(refused.exception)
    assert "Not sent back" not in refused.output
    forced = run(f"{topic}-mine", "--force")
    assert forced.output.count("Not sent back") == 10
    assert "And 3 more." in forced.output
    assert forced.exit_code == 1


@pytest.mark.parametrize("one", [[], ["--partition", "0", "--offset", "0"]])
def test_a_target_that_does_not_exist_is_refused_and_not_created(bootstrap: str, topic: str, one: list[str]) -> None:
    park(bootstrap, topic, 1)
    dead, misspelt = f"{topic}.dead-letter", f"{topic}x"
    said = f"topic '{misspelt}' does not exist; did you mean '{topic}'? If not, create it first: headrace topic create {misspelt}"

    result = CliRunner().invoke(app, ["redrive", dead, "--to", misspelt, "--yes", *one, "--bootstrap", bootstrap])
    assert str(result.exception) == said
    with pytest.raises(TopicNotFound, match=re.escape(said)):
        redrive.redrive(bootstrap, dead, to=misspelt)
    with pytest.raises(TopicNotFound, match=re.escape(said)):
        redrive.redrive_one(bootstrap, redrive.one_parked(bootstrap, dead, 0, 0), to=misspelt)
    with pytest.raises(TopicNotFound, match="topic '0815' does not exist; create it first: headrace topic create 0815"):
        redrive.redrive(bootstrap, dead, to="0815")
    with Admin(bootstrap) as admin:
        assert not {misspelt, "0815"} & set(admin.topic_names())


def broken(*_: Any) -> Any:
    raise ZeroDivisionError("mine")


@pytest.mark.parametrize("letters", [{"retry": broken}, {"backoff": broken}, {"backoff": lambda attempt: "soon"}])
def test_a_retry_or_a_backoff_that_raises_ends_the_subscription_with_its_error(
    bootstrap: str, topic: str, letters: dict[str, Any]
) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, "x")
    with (
        Consumer(topic, bootstrap=bootstrap, group=topic) as consumer,
        pytest.raises((ZeroDivisionError, InvalidArgument), match=r"mine|what backoff returned='soon'"),
    ):
        consumer.on_message(lambda record: 1 / 0, dead_letters=DeadLetters(**letters)).wait(20)


def test_the_command_lists_shows_and_redrives(bootstrap: str, topic: str) -> None:
    park(bootstrap, topic, 2)
    dead = f"{topic}.dead-letter"
    with Admin(bootstrap) as admin:
        admin.create_topic(f"{topic}-else")

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "--bootstrap", bootstrap])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert {"topic": dead, "waiting": 2} in json.loads(run("list", "--json"))
    assert dead in run("list")
    listed = json.loads(run("list", dead, "--json"))
    assert [each["reason"] for each in listed] == ["Reject: number v0", "Reject: number v1"]
    assert "number v1" in run("list", dead)
    shown = json.loads(run("show", dead, "--partition", "0", "--offset", "1", "--json"))
    assert (shown["origin"], shown["key"], shown["value"], shown["headers"]) == (f"{topic}[0]@1", "k1", "v1", {"trace": "1"})
    assert "in refuse" in shown["stack"]
    assert "in refuse" in run("show", dead, "--partition", "0", "--offset", "1")
    assert (
        json.loads(run("redrive", dead, "--partition", "0", "--offset", "1", "--to", f"{topic}-else", "--yes", "--json"))["sent"]
        == 1
    )
    assert json.loads(run("redrive", dead, "--yes", "--json"))["sent"] == 1
    assert json.loads(run("list", dead, "--json")) == []
    assert len(json.loads(run("list", dead, "--all", "--json"))) == 2


def test_the_command_shows_what_a_foreign_record_does_not_say_as_absent(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, "foreign").result(10)
    command = ["show", topic, "--partition", "0", "--offset", "0", "--bootstrap", bootstrap]

    shown = dict(line.split(None, 1) for line in CliRunner().invoke(app, command).stdout.splitlines() if len(line.split()) > 1)
    assert {name: shown[name].strip() for name in ("field", "attempts", "group", "value")} == {
        "field": "value",
        "attempts": "-",
        "group": "-",
        "value": "foreign",
    }
    assert json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["attempts"] is None


def test_the_command_refuses_half_a_record(bootstrap: str) -> None:
    result = CliRunner().invoke(app, ["redrive", "x", "--partition", "0", "--bootstrap", bootstrap])

    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "nowhere"], "topic 'nowhere'.* `headrace dead-letter list` shows the topics there are"),
        (["redrive", "nowhere", "--yes"], "topic 'nowhere'.* `headrace dead-letter list` shows the topics there are"),
        (["show", "DEAD", "--partition", "0", "--offset", "7"], r"offset=7 is not in .*\[0\].* --all` shows those there are"),
        (["show", "DEAD", "--partition", "3", "--offset", "0"], "has no partition 3"),
    ],
)
def test_the_command_says_what_to_try_next(bootstrap: str, topic: str, arguments: list[str], said: str) -> None:
    park(bootstrap, topic, 1)
    named = [f"{topic}.dead-letter" if each == "DEAD" else each for each in arguments]
    result = CliRunner().invoke(app, [*named, "--bootstrap", bootstrap])

    assert result.exit_code == 1
    assert re.search(said, str(result.exception))
