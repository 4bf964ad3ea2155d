"""Reading a broker's audit trail, as it is in the topic."""

import json
from collections.abc import Callable
from typing import Any

from headrace.broker.app import Broker as RealBroker
from headrace.model.errors import RequestError
from headrace.model.names import AUDIT
from headrace.records.header import iterate_batches
from headrace.records.record import read_records
from headrace.testing import Broker
from tests.support.waiting import until

Event = dict[str, Any]


def events_of(broker: Broker) -> list[Event]:
    """All that is committed, in the order of the topic."""
    return broker.run(events_in)


def events_in(broker: RealBroker) -> list[Event]:
    """The same, on the broker's own loop."""
    try:
        partition = broker.parts.replicas.find(AUDIT, 0)
    except RequestError:
        return []  # it is not made yet, or just being taken up
    data = partition.log.read(0, max_bytes=1 << 24, up_to=partition.high_watermark, at_least_one=True, as_stored=True).data
    return [json.loads(record.value or b"") for _, batch in iterate_batches(data) for record in read_records(batch)]


def operation_of(event: Event) -> str:
    return str(event["api"]["operation"]) if "api" in event else "SignIn"


def resources_of(event: Event) -> list[str]:
    return [f"{each['type']} {each['name']}" for each in event.get("resources", ())]


def changes_of(event: Event) -> dict[str, tuple[Any, Any]]:
    """name -> before, after"""
    return {each["name"]: (each["before"], each["after"]) for each in event["unmapped"].get("changes", ())}


def await_event(broker: Broker, wanted: Callable[[Event], bool], what: str = "the event is recorded") -> Event:
    return until(lambda: next(filter(wanted, events_of(broker)), None), what) or {}
