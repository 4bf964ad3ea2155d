"""The entries of one decision as record batches, all for one write."""

from collections.abc import Iterator

from headrace.model.identity import ProducerIdentity
from headrace.records.batch import build_batch
from headrace.records.record import Record

# Entries of one decision go into batches of about this size; a topic's max.message.bytes is 1 MiB unless set otherwise.
BATCH_BYTES = 512 * 1024
# What an entry costs beside its key and value, at most.
ENTRY_OVERHEAD_BYTES = 32
HEADER_OVERHEAD_BYTES = 6  # two lengths


def in_batches(records: list[Record], producer: ProducerIdentity | None) -> Iterator[bytes]:
    """The records in as few batches as their size allows."""
    start = 0
    size = 0
    for position, record in enumerate(records):
        headers_bytes = sum(len(name.encode()) + len(value or b"") + HEADER_OVERHEAD_BYTES for name, value in record.headers)
        record_bytes = len(record.key or b"") + len(record.value or b"") + headers_bytes + ENTRY_OVERHEAD_BYTES
        if size and size + record_bytes > BATCH_BYTES:
            yield _batch(records[start:position], producer)
            start, size = position, 0
        size += record_bytes
    yield _batch(records[start:], producer)


def _batch(records: list[Record], producer: ProducerIdentity | None) -> bytes:
    if producer is None:
        return build_batch(records)
    return build_batch(records, producer_id=producer.producer_id, producer_epoch=producer.epoch, transactional=True)
