"""Dead letters: what was given up, why, and sending it back."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from headrace.client.deadletter.redrive import Parked, dead_letter_topics, parked, redrive
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter
from headrace.gateway.api.paging import PAGE, page
from headrace.gateway.api.shapes import described

operations = Operations("dead letters")


@dataclass(frozen=True, slots=True)
class LetterTopic:
    """A topic of dead letters, and how many in it nobody has sent back."""

    topic: str
    waiting: int


@dataclass(frozen=True, slots=True)
class LetterTopicPage:
    """Some topics of dead letters, and where the next page begins."""

    topics: list[LetterTopic]
    next: str | None


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that was given up, and why.  Key and value are base64."""

    partition: int
    offset: int
    origin_topic: str
    origin_partition: int
    origin_offset: int
    group: str
    cause: str
    reason: str
    attempts: int
    first_failed_at: str
    last_failed_at: str
    times_redriven: int
    key: str | None
    value: str | None


@dataclass(frozen=True, slots=True)
class Letters:
    """The oldest dead letters of a topic."""

    topic: str
    letters: list[Letter]


@dataclass(frozen=True, slots=True)
class NewRedrive:
    """What to send back, and where to."""

    to: Annotated[str | None, described("A topic for all of them; else each goes to the topic it came from.", minLength=1)] = None
    limit: Annotated[int | None, described("How many at most.", minimum=1, maximum=1_000_000)] = None


@dataclass(frozen=True, slots=True)
class Redrive:
    """What became of it."""

    sent: int
    skipped: int


@operations.get("/dead-letters", "List topics of dead letters", query=PAGE, answer=LetterTopicPage)
async def list_letter_topics(call: Call) -> LetterTopicPage:
    caller = call.caller
    found = await asyncio.to_thread(lambda: dead_letter_topics(caller.bootstrap, librdkafka=caller.credentials.properties))
    topics = [LetterTopic(topic, waiting) for topic, waiting in found.items()]
    return LetterTopicPage(*page(topics, call.query, lambda each: each.topic))


LIMIT = Parameter("limit", "How many to show at most.", "number", default=100, minimum=1, maximum=1000)
WAITING = Parameter("waiting", "Only those that nobody has sent back.", "boolean", default=True)


@operations.get("/dead-letters/{topic}", "Show dead letters", query=(LIMIT, WAITING), answer=Letters)
async def show_letters(call: Call) -> Letters:
    caller, topic = call.caller, call.path("topic")

    def collect() -> list[Parked]:
        found = parked(caller.bootstrap, topic, waiting_only=call.query["waiting"], librdkafka=caller.credentials.properties)
        return list(islice(found, call.query["limit"]))

    return Letters(topic, [_letter(each) for each in await asyncio.to_thread(collect)])


@operations.post("/dead-letters/{topic}/redrives", "Send dead letters back", body=NewRedrive, answer=Redrive)
async def send_back(call: Call) -> Redrive:
    caller, topic, wanted = call.caller, call.path("topic"), call.body
    found = await asyncio.to_thread(
        lambda: redrive(caller.bootstrap, topic, to=wanted.to, limit=wanted.limit, librdkafka=caller.credentials.properties)
    )
    return Redrive(found.sent, found.skipped)


def _letter(found: Parked) -> Letter:
    return Letter(
        found.record.partition,
        found.record.offset,
        found.origin_topic,
        found.origin_partition,
        found.origin_offset,
        found.group,
        found.cause,
        found.reason,
        found.attempts,
        found.first_failed_at,
        found.last_failed_at,
        found.times_redriven,
        _base64(found.record.raw_key),
        _base64(found.record.raw_value),
    )


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
