"""Which transactions were aborted is known after any number of crashes: the index is durable with the markers it is made from."""

import pytest

from headrace.log.durability.checksums import FILE_NAME as CHECKSUMS
from headrace.log.indexes.aborted_index import decode_aborted
from headrace.log.interface import Origin
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.topic_settings import LogConfig
from headrace.records.control import build_end_marker
from tests.unit.log.storing import DIRECTORY, TIME, LogWalk, ManualClock, batch_of

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
STEPS = 40


class TransactionWalk(LogWalk):
    """A log that is written in transactions, cut, crashed and opened again, led at random."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, CONFIG)
        self.epoch = 0

    def step(self) -> None:
        actions = [self.transact] * 6 + [self.log.sync] * 3
        actions += [self.checkpoint, self.checkpoint, self.crash, self.truncate, self.lead]
        actions += [self.lose_checksums, self.restart, self.rot]
        self.random.choice(actions)()

    def transact(self) -> None:
        producer_id = self.random.randint(1, 3)
        state = self.log.producers.get(producer_id)
        sequence = 0 if state is None else state.last_sequence + 1
        options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
        self.log.append(batch_of(b"v" * self.random.randint(1, 60), **options), self.epoch)
        if self.random.randrange(4):
            marker = build_end_marker(producer_id, 0, self.random.randrange(3) == 0, 0, TIME)
            self.log.append(marker, self.epoch, origin=Origin.COORDINATOR)

    def lead(self) -> None:
        """Another leader epoch: its first sync writes small files, and the file of checksums, anew."""
        self.epoch += 1

    def checkpoint(self) -> None:
        self.recovery_point = self.log.checkpoint()

    def truncate(self) -> None:
        self.log.truncate_to(self.random.randint(self.log.end_offset // 2, self.log.end_offset))
        self.log.sync()

    def crash(self) -> None:
        self.disk.crash()
        self.log = self.reopen(clean=False)

    def lose_checksums(self) -> None:
        self.log.sync()
        self.disk.write_atomically(DIRECTORY / CHECKSUMS, b"a page that was never written")
        self.crash()

    def rot(self) -> None:
        """A bit of what was noted of aborted transactions flips while nothing runs."""
        self.log.sync()
        self.disk.crash()
        files = [name for name in self.disk.list_names(DIRECTORY) if name.endswith(".txnindex")]
        for name in self.random.sample(files, min(1, len(files))):
            content = bytearray(self.disk.read_bytes(DIRECTORY / name))
            if content:
                content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
                self.disk.write_atomically(DIRECTORY / name, bytes(content))
        self.log = self.reopen(clean=False)

    def restart(self) -> None:
        """Stopped well; then, perhaps, the power fails while nothing runs."""
        self.log.close()
        self.recovery_point = self.log.end_offset
        if self.random.randrange(2):
            self.disk.crash()
        self.log = self.reopen(clean=True)

    def check(self) -> None:
        # What a follower that got all of it from the beginning knows.
        follower = MemoryLog(LogConfig(), clock=ManualClock())
        end = self.log.end_offset
        if end:
            follower.append_as_follower(self.log.read(0, max_bytes=1 << 20, up_to=end, at_least_one=True).data)
        while follower.end_offset < end:
            follower.append_as_follower(self.log.read(follower.end_offset, max_bytes=1 << 20, up_to=end, at_least_one=True).data)

        assert self.log.aborted_transactions(0, end) == follower.aborted_transactions(0, end)


@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 4))])
def test_aborted_transactions_are_known_whatever_crashes_and_when(block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        walk = TransactionWalk(seed)
        for _ in range(STEPS):
            walk.step()
        try:
            walk.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def test_a_page_of_zeros_is_no_aborted_transaction() -> None:
    with pytest.raises(ValueError, match="not in order"):
        decode_aborted(bytes(34))
