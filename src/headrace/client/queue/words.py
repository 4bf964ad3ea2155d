"""What is said of jobs, gathered until it is sent: by partition, with neighbours of which the same is said made one range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from headrace.wire.messages.share_fetch import AcknowledgementBatch, Reason

# What a dead letter's headers take of a reason.
REASON_CHARACTERS_MAX = 1000


class Word(IntEnum):
    """The numbers are those of the protocol."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Said(NamedTuple):
    """Of one job."""

    partition: int
    offset: int
    word: Word
    reason: str = ""


class PartitionWords(NamedTuple):
    """Of one partition, as the protocol has it."""

    batches: tuple[AcknowledgementBatch, ...]
    reasons: tuple[Reason, ...]


def by_partition(said: Iterable[Said]) -> Mapping[int, PartitionWords]:
    """Of each job the last word counts; one that is done is not renewed any more."""
    words: dict[int, dict[int, Said]] = {}
    for each in said:
        of_partition = words.setdefault(each.partition, {})
        if each.word is not Word.RENEW or each.offset not in of_partition:
            of_partition[each.offset] = each
    return {partition: PartitionWords(tuple(_ranges(offsets)), tuple(_reasons(offsets))) for partition, offsets in words.items()}


def _ranges(said: Mapping[int, Said]) -> Iterator[AcknowledgementBatch]:
    first = last = -1
    word: Word | None = None
    for offset in sorted(said):
        here = said[offset].word
        if word is here and offset == last + 1:
            last = offset
            continue
        if word is not None:
            yield AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(word,))
        first = last = offset
        word = here
    if word is not None:
        yield AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(word,))


def _reasons(said: Mapping[int, Said]) -> Iterator[Reason]:
    for offset in sorted(said):
        if said[offset].reason:
            yield Reason(offset=offset, text=said[offset].reason[:REASON_CHARACTERS_MAX])
