"""What a gateway does with the records that a share group gives it."""

import asyncio
from typing import Any, cast

from headrace.gateway.brokers.share_reader import GAP, REJECT, Session, ShareReader
from headrace.records.batch import build_batch
from headrace.records.header import LOW_ATTRIBUTES_POSITION, stamp
from headrace.records.record import Record
from headrace.wire.messages.fetch import LeaderIdAndEpoch
from headrace.wire.messages.share_fetch import AcquiredRecords, PartitionData

GZIP = 1


def batch_of(*offsets: int, damaged: bool = False) -> bytes:
    batch = bytearray(build_batch([Record(n, 0, None, b"value") for n, _ in enumerate(offsets)]))
    stamp(batch, offsets[0], 0)
    if damaged:
        batch[LOW_ATTRIBUTES_POSITION] |= GZIP  # which its records are not
    return bytes(batch)


def test_records_that_nobody_can_read_are_rejected_and_the_others_are_taken() -> None:
    async def story() -> tuple[list[int], list[tuple[int, int, int]]]:
        reader, session = ShareReader(cast(Any, None), "billing", "orders", held_max=10), Session()
        given = AcquiredRecords(first_offset=0, last_offset=5, delivery_count=1)
        data = PartitionData(
            partition_index=0,
            error_code=0,
            acknowledge_error_code=0,
            current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
            records=batch_of(0) + batch_of(1, 2, damaged=True) + batch_of(4, 5),
            acquired_records=(given,),
        )
        reader._take(session, data)
        return [reader.taken.get_nowait().shown.record.offset for _ in range(reader.taken.qsize())], session.words

    taken, words = asyncio.run(story())

    assert taken == [0, 4, 5]
    assert words == [(0, 1, REJECT), (0, 2, REJECT), (0, 3, GAP)]
