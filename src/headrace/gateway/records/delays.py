"""Taking back records that wait for their time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.gateway.api.shapes import described
from headrace.gateway.records.formats import encoded
from headrace.gateway.records.produce import Raw, write
from headrace.gateway.serving.problems import Problem
from headrace.model.delay.headers import CANCEL_HEADER

operations = Operations("records")
DELAYS = "headrace.delay.enable"


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Keys under which nothing shall wait any more; texts are keys as they are, all else is JSON."""

    keys: Annotated[list[Any], described("The keys.", minItems=1, maxItems=10_000, example=["ann"])]


@operations.post("/topics/{topic}/cancellations", "Take back delayed records", body=Cancellation)
async def cancel(call: Call) -> None:
    """All that waits under these keys; what is delivered, or about to be, stays."""
    topic = call.path("topic")
    found = (await call.caller.admin.settings(topic)).get(DELAYS)
    if found is None or found.value != "true":
        # Elsewhere the record that takes others back would be a tombstone.
        raise Problem(409, "no_delays", "This topic has no delays.", f"Set {DELAYS}=true of the topic.")
    keys = [encoded(key, "text" if isinstance(key, str) else "json", "a key") for key in call.body.keys]
    for receipt in await write(call.caller, topic, [Raw(key, None, [(CANCEL_HEADER, None)]) for key in keys]):
        if receipt.error is not None:
            error = receipt.error
            raise Problem(error["status"], error["code"], error["detail"], error["advice"])
