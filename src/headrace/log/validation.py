"""What a batch must be before it enters the log.

`check_batch` looks at the header and the CRC only: it is paid by every batch.  `deep_steps` opens the batch and looks at each
record: it is paid only by topics that ask for it (`LogConfig.needs_deep_validation`), in short steps before the append.
"""

from collections.abc import Callable, Sequence

from headrace.log.cleaning.rules import rebuild_steps, unpack
from headrace.log.cleaning.steps import BYTES_PER_STEP, RECORDS_PER_STEP, Steps
from headrace.log.origin import Origin
from headrace.log.producers.producer_state import LASTING_PRODUCER_ID_FROM
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig
from headrace.records.checksum import crc32c
from headrace.records.compression import CODEC_IDS
from headrace.records.header import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_BIT,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchError,
    BatchHeader,
    Buffer,
    crc_matches,
    iterate_batches,
)
from headrace.records.record import Record, parse_in_parts

SCHEMA_HEADER_BYTES = 5
HasSchema = Callable[[int], bool]
_CODEC_MAX = max(CODEC_IDS.values())


class RecordsRefused(RequestError):
    """Single records are wrong; each is named by its index in the batch."""

    def __init__(self, code: ErrorCode, record_errors: list[tuple[int, str]]) -> None:
        index, reason = record_errors[0]
        super().__init__(code, f"record {index}: {reason}")
        self.record_errors = record_errors


class OfBrokers(RequestError):
    """Only brokers write under such a producer's number: logs never forget it."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, f"Producer ids from {LASTING_PRODUCER_ID_FROM} on are the brokers'.")


def check_batch(batch: memoryview, header: BatchHeader, config: LogConfig, origin: Origin, now_ms: int) -> None:
    """Raise what the sender must hear unless this batch may be stored as it is."""
    if header.magic != MAGIC:
        raise BatchError(f"batches of format {header.magic} are not supported, only {MAGIC}", ErrorCode.INVALID_RECORD)
    if header.producer_id >= LASTING_PRODUCER_ID_FROM and origin is Origin.CLIENT:
        raise OfBrokers
    if len(batch) > config.max_message_bytes and origin is Origin.CLIENT:
        raise RequestError(
            ErrorCode.MESSAGE_TOO_LARGE, f"the batch of {len(batch)} bytes is over max.message.bytes={config.max_message_bytes}"
        )
    if crc32c(batch[ATTRIBUTES_POSITION:]) != header.crc:
        raise BatchError("the batch's CRC does not match its bytes")
    count = header.record_count
    if (count <= 0 or count != header.last_offset_delta + 1) and not _may_have_gaps(header, origin):
        raise BatchError(
            f"{header.record_count} records do not fit a last offset delta of {header.last_offset_delta}",
            ErrorCode.INVALID_RECORD,
        )
    if origin is Origin.CLIENT:
        _check_client_header(header, config, now_ms)


def _may_have_gaps(header: BatchHeader, origin: Origin) -> bool:
    return origin in (Origin.DELAYED, Origin.WAITING) and 0 <= header.record_count <= header.last_offset_delta + 1


def _check_client_header(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    attributes = header.attributes
    if attributes & CONTROL_BIT:
        raise BatchError("clients may not write control batches", ErrorCode.INVALID_RECORD)
    if attributes & COMPRESSION_MASK > _CODEC_MAX:
        raise BatchError(f"there is no codec {attributes & COMPRESSION_MASK}", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise BatchError(
                f"producer {header.producer_id} sent sequence {header.base_sequence}, epoch {header.producer_epoch}",
                ErrorCode.INVALID_RECORD,
            )
    elif attributes & TRANSACTIONAL_BIT:
        raise BatchError("a transactional batch needs a producer id", ErrorCode.INVALID_RECORD)
    if attributes & TIMESTAMP_TYPE_BIT:
        raise BatchError("a producer may not set the broker's kind of timestamp", ErrorCode.INVALID_TIMESTAMP)
    if header.max_timestamp - now_ms > config.message_timestamp_after_max_ms and config.message_timestamp_type == "CreateTime":
        raise BatchError(
            f"timestamp {header.max_timestamp} is more than {config.message_timestamp_after_max_ms} ms in the future",
            ErrorCode.INVALID_TIMESTAMP,
        )


def deep_steps(records: Buffer, config: LogConfig, now_ms: int, has_schema: HasSchema = lambda id: True) -> Steps[Buffer]:
    """The batches as they may be appended: every record checked, packed anew where the topic names a codec."""
    checked: list[Buffer] = []
    for header, batch in iterate_batches(records):
        checked.append((yield from _deep_batch(header, batch, config, now_ms, has_schema)))
    return checked[0] if len(checked) == 1 else b"".join(checked)


def _deep_batch(header: BatchHeader, batch: memoryview, config: LogConfig, now_ms: int, has_schema: HasSchema) -> Steps[Buffer]:
    if header.magic != MAGIC:
        raise BatchError(f"batches of format {header.magic} are not supported, only {MAGIC}", ErrorCode.INVALID_RECORD)
    if not crc_matches(batch):
        # Packing it anew would give broken bytes a CRC that matches.
        raise BatchError("the batch's CRC does not match its bytes")
    codec = _codec_for(config)
    repacked = codec is not None and codec != header.attributes & COMPRESSION_MASK and not header.attributes & CONTROL_BIT
    body = yield from unpack(header, batch)
    items: list[Record] = []
    inspection = _Inspection(header, config, now_ms, has_schema) if header.attributes & CONTROL_BIT == 0 else None
    for records in parse_in_parts(header, body, RECORDS_PER_STEP, BYTES_PER_STEP):
        if inspection is not None:
            inspection.look_at(records)
        if repacked:
            items += records
        yield None
    if inspection is not None:
        inspection.settle()
    if not repacked or codec is None:
        return batch
    return (yield from rebuild_steps(header._replace(attributes=header.attributes & ~COMPRESSION_MASK | codec), items, None))


def _codec_for(config: LogConfig) -> int | None:
    match config.compression_type:
        case "producer":
            return None
        case "uncompressed":
            return CODEC_IDS["none"]
        case name:
            return CODEC_IDS[name]


class _Inspection:
    """What is wrong with single records of a batch, collected over its parts; one kind is told, the worst."""

    def __init__(self, header: BatchHeader, config: LogConfig, now_ms: int, has_schema: HasSchema) -> None:
        self._has_schema = has_schema
        self._needs_schema = (config.key_schema_validation, config.value_schema_validation)
        self._without_schema: list[tuple[int, str]] = []
        self._next_offset = header.base_offset
        self._base_offset = header.base_offset
        self._needs_key = config.is_compacted
        limits_time = config.message_timestamp_type == "CreateTime"
        self._earliest = now_ms - config.message_timestamp_before_max_ms if limits_time else None
        self._latest = now_ms + config.message_timestamp_after_max_ms
        self._wrong_offsets: list[tuple[int, str]] = []
        self._without_key: list[tuple[int, str]] = []
        self._wrong_times: list[tuple[int, str]] = []

    def look_at(self, records: Sequence[Record]) -> None:
        earliest, latest = self._earliest, self._latest
        for record in records:
            index = self._next_offset - self._base_offset
            if record.offset != self._next_offset:
                self._wrong_offsets.append((index, f"its offset delta is {record.offset - self._base_offset}"))
            if record.key is None and self._needs_key:
                self._without_key.append((index, "a compacted topic needs a key"))
            if earliest is not None and record.timestamp != -1 and not earliest <= record.timestamp <= latest:
                self._wrong_times.append((index, f"timestamp {record.timestamp} is not between {earliest} and {latest}"))
            self._next_offset += 1
        if any(self._needs_schema):
            self._look_for_schemas(records)

    def _look_for_schemas(self, records: Sequence[Record]) -> None:
        """Keys and values begin with a byte 0 and the id of a schema in four bytes."""
        keys, values = self._needs_schema
        for record in records:
            for part, data in (("key", record.key if keys else None), ("value", record.value if values else None)):
                if data is None:
                    continue
                index = record.offset - self._base_offset
                if len(data) < SCHEMA_HEADER_BYTES or data[0] != 0:
                    self._without_schema.append((index, f"its {part} does not begin with a schema id"))
                elif not self._has_schema(id := int.from_bytes(data[1:SCHEMA_HEADER_BYTES], "big")):
                    self._without_schema.append((index, f"the schema {id} of its {part} is not registered"))

    def settle(self) -> None:
        for code, wrong in (
            (ErrorCode.INVALID_RECORD, self._wrong_offsets),
            (ErrorCode.INVALID_RECORD, self._without_key),
            (ErrorCode.INVALID_TIMESTAMP, self._wrong_times),
            (ErrorCode.INVALID_RECORD, self._without_schema),
        ):
            if wrong:
                raise RecordsRefused(code, wrong)
