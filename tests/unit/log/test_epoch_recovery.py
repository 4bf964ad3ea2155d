"""Where leader epochs began is known after a crash, even of epochs whose records were compacted away."""

import pytest

from headrace.log.epochs import EpochCache, EpochStart, decode_epochs
from headrace.log.recovery.epoch_recovery import EpochRecovery
from tests.unit.log.storing import DIRECTORY, batch_of, open_log, simulated_disk


def settled(claims: list[tuple[int, int]], batches: list[tuple[int, int]], sure_below: int = 0) -> list[tuple[int, int]]:
    recovery = EpochRecovery()
    recovery.claims = [EpochStart(*claim) for claim in claims]
    for epoch, base_offset in batches:
        recovery.see(epoch, base_offset)
    epochs = EpochCache(lambda: 1000)
    recovery.settle(epochs, sure_below)
    return [(entry[0], entry[1]) for entry in epochs]


@pytest.mark.parametrize(
    ("claims", "batches", "expected"),
    [
        pytest.param([], [(0, 0), (0, 5), (2, 9)], [(0, 0), (2, 9)], id="no checkpoint: the batches tell"),
        pytest.param([(0, 0), (1, 16)], [(1, 36)], [(0, 0), (1, 16)], id="the first records of an epoch are gone"),
        pytest.param(
            [(0, 0), (1, 16), (2, 20)], [(0, 3), (2, 25)], [(0, 0), (1, 16), (2, 20)], id="all records of an epoch are gone"
        ),
        pytest.param([(0, 0)], [(0, 0), (1, 16)], [(0, 0), (1, 16)], id="a checkpoint from before an epoch"),
        pytest.param(
            [(0, 0), (2, 50)], [(0, 0), (3, 40), (3, 60)], [(0, 0), (3, 40)], id="a checkpoint from before a truncation"
        ),
        pytest.param([(0, 0)], [(0, 0), (257, 4), (0, 5)], [(0, 0)], id="an epoch that is too high between others"),
    ],
)
def test_the_checkpoint_is_believed_in_what_no_batch_contradicts(
    claims: list[tuple[int, int]], batches: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert settled(claims, batches) == expected


def test_where_the_checkpoint_is_sure_no_batch_need_have_been_seen() -> None:
    assert settled([(0, 0), (1, 10), (4, 30)], [(4, 30), (5, 44)], sure_below=30) == [(0, 0), (1, 10), (4, 30), (5, 44)]


def test_an_epoch_is_durable_with_its_first_record() -> None:
    for seed in range(30):
        disk = simulated_disk(seed)
        log = open_log(disk)
        for epoch in (0, 1, 4):
            log.append(batch_of(b"v"), epoch)
            log.sync()
        disk.crash()

        text = disk.read_bytes(DIRECTORY / "leader-epoch-checkpoint")
        assert decode_epochs(text) == [EpochStart(0, 0), EpochStart(1, 1), EpochStart(4, 2)], seed
