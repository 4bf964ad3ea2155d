"""Loads a shard: replays all that its partition's log holds, in slices, so that everybody else gets turns meanwhile."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.broker.coordinators.interfaces import CoordinatorLog, EntryCodec, Shard
from headrace.model.identity import ProducerIdentity
from headrace.records.batch import iterate_batches, read_header
from headrace.records.control import read_marker
from headrace.records.header import BatchHeader
from headrace.records.record import read_pairs

LOAD_CHUNK_BYTES = 1024 * 1024
# While a shard is loaded, everybody else gets a turn after this many entries.
ENTRIES_PER_TURN = 1000


async def replay_log(log: CoordinatorLog, codec: EntryCodec, shard: Shard) -> int:
    """Replay from the log's start to its end; answer how many entries that were.

    Nobody else writes meanwhile: appends by this broker come from the shard, which does not serve yet."""
    offset = log.start_offset
    entries = 0
    while offset < log.end_offset:
        chunk = await log.read(offset, LOAD_CHUNK_BYTES)
        if not chunk:
            break
        for header, batch in iterate_batches(chunk):
            if header.next_offset > offset:
                replayed = _replay_batch(shard, codec, header, batch, offset)
                offset = header.next_offset
                if (entries + replayed) // ENTRIES_PER_TURN > entries // ENTRIES_PER_TURN:
                    await asyncio.sleep(0)
                entries += replayed
    return entries


def replay_batch(shard: Shard, codec: EntryCodec, batch: bytes, base_offset: int) -> None:
    """Replay a batch that was just written, from a base offset on."""
    header = read_header(batch)
    for offset, key, value in read_pairs(batch):
        entry = codec.decode(key, value) if key is not None else None
        if entry is not None:
            shard.replay(entry, base_offset + offset - header.base_offset, None)


def _replay_batch(shard: Shard, codec: EntryCodec, header: BatchHeader, batch: memoryview, from_offset: int) -> int:
    producer = ProducerIdentity(header.producer_id, header.producer_epoch) if header.is_transactional else None
    if header.is_control:
        marker = read_marker(batch)
        if producer is not None and marker is not None:
            shard.replay_marker(producer, marker.committed)
        return 0
    entries = 0
    decode, replay = codec.decode, shard.replay
    with _nothing_collected():
        for offset, key, value in read_pairs(batch):
            if offset < from_offset or key is None:
                continue
            entry = decode(key, value)
            if entry is not None:
                replay(entry, offset, producer)
                entries += 1
    return entries


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """What a load makes it keeps: to look through it for garbage at every few hundred entries takes a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
