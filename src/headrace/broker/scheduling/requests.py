"""What clients write to `__headrace_schedules`: taken record by record, checked, and decided upon."""

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
from headrace.records.header import check_crc
from headrace.records.record import Record, read_records
from headrace.security.authorization.permissions import check_of
from headrace.wire.apis import ApiKey

WRITE_TOPIC = check_of(ApiKey.PRODUCE, Operation.WRITE, ResourceType.TOPIC)


class ScheduleRequests:
    """The way in for schedules."""

    def __init__(self, schedules: ScheduleCoordinator, image: CurrentImage) -> None:
        self._schedules = schedules
        self._image = image

    async def take(self, batch: Buffer, context: RequestContext) -> None:
        """Return when all that a batch asks for is committed; raise RequestError, before any of it, when something is wrong."""
        check_crc(batch)
        for change in self._changes(read_records(batch), context):
            answer = await self._schedules.change(change)
            if answer.error is not ErrorCode.NONE:
                raise RequestError(answer.error, f"Schedule {change.name}: {answer.why}.")

    def _changes(self, records: list[Record], context: RequestContext) -> list[Change]:
        changes: list[Change] = []
        wrong: list[tuple[int, str]] = []
        for index, record in enumerate(records):
            try:
                changes.append(self._change(record, context))
            except ValueError as error:
                wrong.append((index, str(error)))
        if wrong:
            raise RecordsRefused(ErrorCode.INVALID_RECORD, wrong)
        return changes

    def _change(self, record: Record, context: RequestContext) -> Change:
        name = (record.key or b"").decode(errors="replace")
        if (why := why_not_a_schedule_name(name)) is not None:
            raise ValueError(why)
        if record.value is None:
            self._require_right(name, None, context)
            return Change(name)
        given = read_schedule(record.value)
        if "run" in given:
            self._require_right(name, None, context)
            return Change(name, run=given["run"])
        definition = definition_of(name, given)
        if (why := why_not_a_time(definition.cron, definition.timezone)) is not None:
            raise ValueError(why)
        if definition.topic in INTERNAL_TOPICS or definition.topic not in self._image().topics:
            raise ValueError(f"there is no topic {definition.topic}")
        self._require_right(name, definition.topic, context)
        return Change(name, definition)

    def _require_right(self, name: str, topic: str | None, context: RequestContext) -> None:
        """Brokers write for a schedule: whoever makes, changes, runs or removes it needs the right to write there."""
        if context.guard.authorizer is None:
            return
        known = [led.shard.definitions.get(name) for led in self._schedules.shards.loaded()]
        for each in {topic, *(definition.topic for definition in known if definition is not None)} - {None}:
            if not context.guard.allows(context.subject, WRITE_TOPIC, each or "", context):
                raise RequestError(WRITE_TOPIC.error, f"The schedule writes to {each}.")
