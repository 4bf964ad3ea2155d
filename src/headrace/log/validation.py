"""What a batch must be before it enters the log.

`check_batch` looks at the header and the CRC only: it is paid by every batch.  `deep` opens the batch and looks at each record:
it is paid only by topics that ask for it (`LogConfig.needs_deep_validation`), and may run in an executor before the append.
"""

from crc32c import crc32c

from headrace.log.values import Origin
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import rebuild_batch
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
from headrace.records.record import Record, read_records

_CODEC_MAX = max(CODEC_IDS.values())


class RecordsRefused(RequestError):
    """Single records are wrong; each is named by its index in the batch."""

    def __init__(self, code: ErrorCode, record_errors: list[tuple[int, str]]) -> None:
        index, reason = record_errors[0]
        super().__init__(code, f"record {index}: {reason}")
        self.record_errors = record_errors


def check_batch(batch: memoryview, header: BatchHeader, config: LogConfig, origin: Origin, now_ms: int) -> None:
    """Raise what the sender must hear unless this batch may be stored as it is."""
    if header.magic != MAGIC:
        raise BatchError(f"batches of format {header.magic} are not supported, only {MAGIC}", ErrorCode.INVALID_RECORD)
    if len(batch) > config.max_message_bytes and origin is Origin.CLIENT:
        raise RequestError(
            ErrorCode.MESSAGE_TOO_LARGE, f"the batch of {len(batch)} bytes is over max.message.bytes={config.max_message_bytes}"
        )
    if crc32c(batch[ATTRIBUTES_POSITION:]) != header.crc:
        raise BatchError("the batch's CRC does not match its bytes")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise BatchError(
            f"{header.record_count} records do not fit a last offset delta of {header.last_offset_delta}",
            ErrorCode.INVALID_RECORD,
        )
    if origin is Origin.CLIENT:
        _check_client_header(header, config, now_ms)


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


def deep(records: Buffer, config: LogConfig, now_ms: int) -> bytes:
    """The batches as they may be appended: every record checked, packed anew where the topic names a codec."""
    return b"".join([_deep_batch(header, batch, config, now_ms) for header, batch in iterate_batches(records)])


def _deep_batch(header: BatchHeader, batch: memoryview, config: LogConfig, now_ms: int) -> bytes:
    if header.magic != MAGIC:
        raise BatchError(f"batches of format {header.magic} are not supported, only {MAGIC}", ErrorCode.INVALID_RECORD)
    if not crc_matches(batch):
        # Packing it anew would give broken bytes a CRC that matches.
        raise BatchError("the batch's CRC does not match its bytes")
    items = read_records(batch)
    if header.attributes & CONTROL_BIT == 0:
        _check_offsets(header, items)
        _check_keys(items, config)
        _check_timestamps(items, config, now_ms)
    codec = _codec_for(config)
    if codec is None or codec == header.attributes & COMPRESSION_MASK or header.attributes & CONTROL_BIT:
        return bytes(batch)
    return rebuild_batch(header._replace(attributes=header.attributes & ~COMPRESSION_MASK | codec), items)


def _codec_for(config: LogConfig) -> int | None:
    match config.compression_type:
        case "producer":
            return None
        case "uncompressed":
            return CODEC_IDS["none"]
        case name:
            return CODEC_IDS[name]


def _check_offsets(header: BatchHeader, records: list[Record]) -> None:
    wrong = [
        (index, f"its offset delta is {record.offset - header.base_offset}")
        for index, record in enumerate(records)
        if record.offset != header.base_offset + index
    ]
    if wrong:
        raise RecordsRefused(ErrorCode.INVALID_RECORD, wrong)


def _check_keys(records: list[Record], config: LogConfig) -> None:
    if not config.is_compacted:
        return
    wrong = [(index, "a compacted topic needs a key") for index, record in enumerate(records) if record.key is None]
    if wrong:
        raise RecordsRefused(ErrorCode.INVALID_RECORD, wrong)


def _check_timestamps(records: list[Record], config: LogConfig, now_ms: int) -> None:
    if config.message_timestamp_type != "CreateTime":
        return
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    wrong = [
        (index, f"timestamp {record.timestamp} is not between {earliest} and {latest}")
        for index, record in enumerate(records)
        if record.timestamp != -1 and not earliest <= record.timestamp <= latest
    ]
    if wrong:
        raise RecordsRefused(ErrorCode.INVALID_TIMESTAMP, wrong)
