"""What clients write to `__headrace_schedules`: taken record by record, checked, and decided upon."""

import asyncio

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.scheduling.coordinator import ScheduleCoordinator
from headrace.broker.scheduling.entries import definition_of
from headrace.broker.scheduling.times import why_not_a_time
from headrace.controller.image import CurrentImage
from headrace.coordination.schedule.shard import Change
from headrace.host.disk import Buffer
from headrace.log.validation import RecordsRefused
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.delay.schedules import read_schedule, why_not_a_schedule_name
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.names import INTERNAL_TOPICS
from headrace.records.header import check_crc, read_header
from headrace.records.record import Record, read_records
from headrace.security.authorization.permissions import check_of
from headrace.wire.apis import ApiKey

WRITE_TOPIC = check_of(ApiKey.PRODUCE, Operation.WRITE, ResourceType.TOPIC)
IN_TRANSACTION = "a schedule cannot be changed in a transaction; send it without a transactional id"
# A cron expression takes a moment to look at: after so many, everybody else gets a turn.
RECORDS_PER_TURN = 20


class ScheduleRequests:
    """The way in for schedules."""

    def __init__(self, schedules: ScheduleCoordinator, image: CurrentImage) -> None:
        self._schedules = schedules
        self._image = image

    async def take(self, batch: Buffer, context: RequestContext) -> None:
        """Return when all that a batch asks for is committed; raise RequestError, before any of it, when something is wrong."""
        check_crc(batch)
        if read_header(batch).is_transactional:
            raise RequestError(ErrorCode.INVALID_RECORD, IN_TRANSACTION)
        for change in await self._changes(read_records(batch), context):
            # Again: others may have made a schedule of this name meanwhile.
            self._require_right(change, context)
            answer = await self._schedules.change(change)
            if answer.error is not ErrorCode.NONE:
                raise RequestError(answer.error, f"Schedule {change.name}: {answer.why}.")

    async def _changes(self, records: list[Record], context: RequestContext) -> list[Change]:
        changes: list[Change] = []
        wrong: list[tuple[int, str]] = []
        for index, record in enumerate(records):
            try:
                changes.append(self._change(record, context))
            except ValueError as error:
                wrong.append((index, str(error)))
            if index % RECORDS_PER_TURN == RECORDS_PER_TURN - 1:
                await asyncio.sleep(0)
        if wrong:
            raise RecordsRefused(ErrorCode.INVALID_RECORD, wrong)
        return changes

    def _change(self, record: Record, context: RequestContext) -> Change:
        name = (record.key or b"").decode(errors="replace")
        if (why := why_not_a_schedule_name(name)) is not None:
            raise ValueError(why)
        given = None if record.value is None else read_schedule(record.value)
        if given is None or "run" in given:
            change = Change(name, run=None if given is None else given["run"])
            self._require_right(change, context)
            return change
        definition = definition_of(name, given)
        if (why := why_not_a_time(definition.cron, definition.timezone)) is not None:
            raise ValueError(why)
        change = Change(name, definition)
        # First: whoever may not write to a topic need not hear whether there is one.
        self._require_right(change, context)
        if definition.topic in INTERNAL_TOPICS or definition.topic not in self._image().topics:
            raise ValueError(f"there is no topic {definition.topic}")
        return change

    def _require_right(self, change: Change, context: RequestContext) -> None:
        """Brokers write for a schedule: whoever makes, changes, runs or removes it needs the right to write there."""
        if context.guard.authorizer is None:
            return
        known = [led.shard.definitions.get(change.name) for led in self._schedules.shards.loaded()]
        for topic in {definition.topic for definition in (change.definition, *known) if definition is not None}:
            if not context.guard.allows(context.subject, WRITE_TOPIC, topic, context):
                raise RequestError(WRITE_TOPIC.error, f"The schedule writes to {topic}.")
