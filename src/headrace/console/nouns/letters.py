"""Dead letters with their stories, as far as rules do not hide them, and sending chosen ones back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Final

from headrace.client.deadletter.redrive import Parked, one_parked, parked, redrive_one
from headrace.client.errors import HeadraceError
from headrace.console.messages.decoding import Decoder
from headrace.console.reach import console_of
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter
from headrace.gateway.api.shapes import described
from headrace.gateway.brokers.tails import Shown
from headrace.gateway.serving.problems import sentence
from headrace.model.identity import TopicPartition
from headrace.records.record import Record

operations = Operations("console dead letters")
LIMIT: Final = Parameter("limit", "How many at most.", "number", default=200, minimum=1, maximum=2000)


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter."""

    partition: Annotated[int, described("Its partition.", minimum=0)]
    offset: Annotated[int, described("Its offset.", minimum=0)]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Those to send back, and where to."""

    letters: Annotated[list[Letter], described("The chosen ones.", minItems=1, maxItems=200)]
    to: Annotated[str | None, described("A topic; else each goes where it came from.", minLength=1, maxLength=249)] = None


@operations.get("/console/api/dead-letters/{topic}", "Dead letters that wait", query=(LIMIT,), listed=False)
async def list_letters(call: Call) -> dict[str, Any]:
    caller, topic, limit = call.caller, call.path("topic"), call.query["limit"]

    def collect() -> list[Parked]:
        return list(islice(parked(caller.bootstrap, topic, waiting_only=True, librdkafka=caller.credentials.properties), limit))

    decoder = Decoder(call.gateway, caller, console_of(call).hiding)
    return {"topic": topic, "letters": [await _letter(decoder, each) for each in await asyncio.to_thread(collect)]}


async def _letter(decoder: Decoder, found: Parked) -> dict[str, Any]:
    kept = found.record
    record = Record(kept.offset, kept.timestamp or 0, kept.raw_key, kept.raw_value, ())
    return {
        **await decoder.document(Shown(TopicPartition(kept.topic, kept.partition), record)),
        "origin_topic": found.origin_topic,
        "origin_partition": found.origin_partition,
        "origin_offset": found.origin_offset,
        "group": found.group,
        "cause": found.cause,
        "reason": found.reason,
        "attempts": found.attempts,
        "last_failed_at": found.last_failed_at,
        "times_redriven": found.times_redriven,
    }


@operations.post("/console/api/dead-letters/{topic}/redrives", "Send chosen dead letters back", body=Chosen, listed=False)
async def send_back(call: Call) -> dict[str, Any]:
    """One by one, each exactly once; what could not be sent is told with its reason."""
    caller, topic, wanted = call.caller, call.path("topic"), call.body
    sent, failed = 0, []
    for chosen in wanted.letters:
        try:
            await asyncio.to_thread(_one, caller.bootstrap, topic, chosen, wanted.to, caller.credentials.properties)
            sent += 1
        except HeadraceError as error:
            failed.append({"partition": chosen.partition, "offset": chosen.offset, "why": sentence(error)})
    return {"sent": sent, "failed": failed}


def _one(bootstrap: str, topic: str, chosen: Letter, to: str | None, properties: Any) -> None:
    letter = one_parked(bootstrap, topic, chosen.partition, chosen.offset, librdkafka=properties)
    redrive_one(bootstrap, letter, to=to, librdkafka=properties)
