"""In the end all replicas of a partition hold the same, byte for byte; of a compacted topic, the same last word on every key.

And all brokers say the same of who may do what: what the last answer to whoever changed it said.
"""

from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.broker.partitions.partition import Partition
from headrace.log.interface import CorruptBatch
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import RequestError, StorageError
from headrace.records.batch import iterate_batches
from headrace.records.header import BatchHeader
from headrace.records.record import read_records
from simulation.clients.reading import without_aborted
from simulation.operators.ruling import SOMEBODY, Ruler
from simulation.rules.observer import READ_BYTES, batch_of

if TYPE_CHECKING:
    from headrace.broker.app import Broker


def disagreements(brokers: "Iterable[Broker]", rotten: Container[int] = ()) -> Iterator[str]:
    """Every partition whose replicas differ, as a sentence.  To be asked when all are even.

    Damage on a disk with flipped bits may lie where nobody has read yet; what leads must be sound.
    """
    replicas: dict[tuple[UUID, int], list[tuple[int, Partition]]] = {}
    for broker in brokers:
        for partition in broker.parts.replicas:
            replicas.setdefault((partition.topic_id, partition.identity.partition), []).append((broker.broker_id, partition))
    for copies in replicas.values():
        yield from _disagreement(copies, rotten)


def disagreements_about_rights(brokers: "Iterable[Broker]", ruler: Ruler | None) -> Iterator[str]:
    """Every broker that lets somebody do what he may no longer, or keeps him from what he may."""
    if ruler is None or not ruler.topic:
        return
    allowed = {broker.broker_id: _may_write(broker, ruler.topic) for broker in brokers}
    if ruler.is_unsure and len(set(allowed.values())) <= 1:
        # A request that nobody waited for any more may have come last; that all know the same is what is left to ask.
        return
    said = "may" if ruler.is_allowed else "may not"
    for broker_id, is_allowed in allowed.items():
        if is_allowed is not ruler.is_allowed:
            yield f"{SOMEBODY.principal} {said} write {ruler.topic}, and broker {broker_id} knows it otherwise"


def _may_write(broker: "Broker", topic: str) -> bool | None:
    authorizer = broker.parts.access_rules.guard.authorizer
    return None if authorizer is None else authorizer.allows(SOMEBODY, Operation.WRITE, ResourceType.TOPIC, topic)


def _disagreement(copies: list[tuple[int, Partition]], rotten: Container[int]) -> Iterator[str]:
    start = max(partition.log.start_offset for _, partition in copies)
    first: tuple[int, object] | None = None
    for broker_id, partition in copies:
        try:
            content = _last_words(partition, start) if partition.config.is_compacted else _batches(partition, start)
        except (RequestError, StorageError) as error:
            if isinstance(error, CorruptBatch) and broker_id in rotten and not partition.is_leader:
                continue
            yield f"{partition.identity} on {broker_id} cannot be read in the end: {error}"
            continue
        if first is None:
            first = (broker_id, content)
        elif first[1] != content:
            yield f"{partition.identity} differs in the end: {first[0]} has {first[1]}, {broker_id} has {content}"


def _read(partition: Partition, start: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    position, log = start, partition.log
    while position < log.end_offset:
        read = log.read(position, max_bytes=READ_BYTES, up_to=log.end_offset, at_least_one=True, as_stored=True)
        yield from iterate_batches(read.data)
        if read.next_offset <= position:
            return
        position = read.next_offset


def _batches(partition: Partition, start: int) -> list[object]:
    return [batch_of(header) for header, _ in _read(partition, start)]


def _last_words(partition: Partition, start: int) -> dict[bytes | None, tuple[int, bytes]]:
    """The last value of each key, less what one replica may have dropped and another not yet: deletions, and aborted ones."""
    words: dict[bytes | None, tuple[int, bytes]] = {}
    log = partition.log
    aborted = [(each.first_offset, each.producer_id) for each in log.aborted_transactions(start, log.end_offset)]
    for batch in without_aborted(_read(partition, start), aborted):
        for record in read_records(batch):
            words.pop(record.key, None)
            if record.value is not None:
                words[record.key] = (record.offset, record.value)
    return dict(sorted(words.items(), key=lambda item: item[1]))
