"""What of the audit trail waits to be written: in order, once, within a bound, and what is beyond it is counted."""

import asyncio
import itertools
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.audit import trail as module
from headrace.broker.audit.acts.act import Act, topic_named
from headrace.broker.audit.copies import Copies, FileSink
from headrace.broker.audit.topic import AuditUnavailable
from headrace.broker.audit.trail import AuditTrail
from headrace.model.access.principals import Principal, Subject, user
from headrace.model.broker_settings import BrokerConfig
from headrace.security.audit.events import Activity, EventMaker, Origin, ValueChange
from headrace.testing.clock import AdjustableClock
from headrace.wire.apis import ApiKey
from tests.support.waiting import until_async

ANN = Origin(subject=Subject(user("ann"), [], "10.0.0.1"))


class Topic:
    """Takes what it is given, unless it is away."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.is_away = False
        self.seems_writable = False

    async def write(self, events: Iterable[bytes], seconds: float) -> None:
        taken = list(events)
        await asyncio.sleep(0)
        if self.is_away:
            raise AuditUnavailable("it is away")
        self.written += map(json.loads, taken)

    async def wait_until_writable(self, seconds: float) -> None:
        if self.is_away and not self.seems_writable:
            raise AuditUnavailable("it is away")


def trail_of(topic: Topic, **settings: str) -> AuditTrail:
    numbers = itertools.count()
    events = EventMaker("1", "broker 1", lambda: str(next(numbers)))
    config = BrokerConfig({name.replace("_", "."): value for name, value in settings.items()})
    return AuditTrail(config, topic, Copies([]), events, AdjustableClock())  # type: ignore[arg-type]


def created(name: str) -> Act:
    return Act(activity=Activity.CREATE, resources=(topic_named(name),))


def names(topic: Topic) -> list[str]:
    return [event["resources"][0]["name"] for event in topic.written if event.get("resources")]


def test_what_could_not_be_written_is_written_later_once_and_in_order() -> None:
    async def story() -> None:
        topic = Topic()
        trail = trail_of(topic, headrace_audit_when_unavailable="allow")
        telling = asyncio.ensure_future(trail.tell_for_ever())
        topic.is_away = True
        for name in ("a", "b", "c"):
            await trail.record(ANN, ApiKey.CREATE_TOPICS, [created(name)])
        topic.is_away = False
        await asyncio.gather(trail.close(), trail.close())
        telling.cancel()

        assert names(topic) == ["a", "b", "c"]
        assert len({event["metadata"]["uid"] for event in topic.written}) == 3

    asyncio.run(story())


def test_so_many_wait_and_no_more_and_how_many_were_dropped_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 10)
    monkeypatch.setattr(module, "TELL_SECONDS", 0.001)

    async def story() -> None:
        topic = Topic()
        trail = trail_of(topic, headrace_audit_when_unavailable="allow")
        topic.is_away = True
        for number in range(25):
            await trail.record(ANN, ApiKey.CREATE_TOPICS, [created(f"t{number}")])
        topic.is_away = False
        telling = asyncio.ensure_future(trail.tell_for_ever())
        # The event that tells of the others takes one's place.
        await until_async(lambda: sum(event.get("count", 0) for event in topic.written) == 16)
        telling.cancel()

        assert names(topic) == [f"t{number}" for number in range(16, 25)]

    asyncio.run(story())


def test_failed_sign_ins_of_one_address_are_told_together() -> None:
    async def story() -> None:
        topic = Topic()
        trail = trail_of(topic)
        for _ in range(1000):
            trail.note_failed_sign_in(ANN, "PLAIN", "the user or the password is wrong")
        await trail.close()

        (event,) = topic.written
        assert (event["count"], event["user"]["uid"], event["src_endpoint"]["ip"]) == (1000, "User:ann", "10.0.0.1")
        assert (event["class_uid"], event["status_id"]) == (3002, 2)

    asyncio.run(story())


def test_an_act_that_changes_very_much_is_told_in_several_events() -> None:
    async def story() -> None:
        topic = Topic()
        changes = tuple(ValueChange(f"partition {number}", 1, 2) for number in range(250))
        await trail_of(topic).record(
            ANN, ApiKey.ELECT_LEADERS, [Act(activity=Activity.UPDATE, resources=(topic_named("t"),), changes=changes)]
        )

        assert [len(event["unmapped"]["changes"]) for event in topic.written] == [100, 100, 50]

    asyncio.run(story())


def test_an_act_whose_request_is_given_up_is_recorded_all_the_same() -> None:
    async def story() -> None:
        topic = Topic()
        trail = trail_of(topic)
        recording = asyncio.create_task(trail.record(ANN, ApiKey.CREATE_TOPICS, [created("orders")]))
        await asyncio.sleep(0)  # it has begun to write
        recording.cancel()
        with pytest.raises(asyncio.CancelledError):
            await recording

        await trail.close()

        assert names(topic) == ["orders"]

    asyncio.run(story())


class BrokenSink:
    """Takes nothing."""

    name = "nowhere"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def write(self, lines: Sequence[bytes]) -> None:
        raise self._error

    def close(self) -> None: ...


@pytest.mark.parametrize("error", [OSError("the disk is full"), ValueError("embedded null byte")])
def test_copies_that_cannot_be_written_are_counted(error: Exception) -> None:
    async def story() -> None:
        copies = Copies([BrokenSink(error)])
        copies.add([b"one", b"two"])
        await copies.close()

        assert copies.lost == 2

    asyncio.run(story())


def test_a_file_of_copies_that_cannot_be_opened_anew_closes_no_file_of_somebody_else(tmp_path: Path) -> None:
    folder, moved = tmp_path / "audit", tmp_path / "moved"
    folder.mkdir()
    sink = FileSink(str(folder / "copies"))
    sink.write([b"one"])
    folder.rename(moved)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            sink.write([b"lost"])
    with (tmp_path / "somebody's").open("wb") as somebodys:  # gets the number of a file that was closed before
        folder.mkdir()
        sink.write([b"two"])
        sink.close()
        os.fstat(somebodys.fileno())

    assert [(each / "copies").read_bytes() for each in (moved, folder)] == [b"one\n", b"two\n"]


def test_no_other_act_begins_while_one_that_was_carried_out_is_not_recorded() -> None:
    async def story() -> None:
        topic = Topic()
        trail = trail_of(topic, headrace_audit_timeout_ms="50")
        topic.is_away = True
        with pytest.raises(AuditUnavailable):
            await trail.record(ANN, ApiKey.CREATE_TOPICS, [created("a")])
        topic.seems_writable = True

        with pytest.raises(AuditUnavailable):
            await trail.require_writable()

        topic.is_away = False
        await trail.require_writable()
        assert names(topic) == ["a"]

    asyncio.run(story())


def test_of_a_name_that_somebody_unknown_gives_no_more_is_held_than_is_told() -> None:
    trail = trail_of(Topic())
    for number in range(20):
        origin = Origin(subject=Subject(Principal("User", f"{number}" + "x" * 500_000), address="10.0.0.1"))
        trail.note_failed_sign_in(origin, "SCRAM-SHA-512", "there is no such user")

    held = trail._collected._kinds.values()
    assert len(held) == 20
    assert max(len(each.sample.origin.subject.principal.name) for each in held) <= 2001  # type: ignore[union-attr]
