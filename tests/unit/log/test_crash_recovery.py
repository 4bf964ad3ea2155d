"""Crashes at any moment: what was synced is there, in order and once, and nothing torn is ever read."""

import pytest

from headrace.log.segments.segment import segment_path
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.topic_settings import LogConfig
from headrace.testing.disk import SimulatedCrash
from tests.unit.log.storing import (
    DIRECTORY,
    TIME,
    LogWalk,
    ManualClock,
    batch_of,
    end_transaction,
    open_log,
    produce,
    read_all,
    simulated_disk,
    values_of,
)

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200)
PRODUCER = 77


class Walk(LogWalk):
    """A log and a list beside it, led at random.  The list knows what was appended, and how much of it was promised."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, CONFIG)
        self.model: list[bytes] = []
        self.promised = 0
        self.counter = 0

    def step(self) -> None:
        actions = [self.append] * 8 + [self.sync] * 3 + [self.crash_in_the_middle] * 2
        actions += [self.crash, self.checkpoint, self.truncate, self.log.roll, self.restart_cleanly]
        self.random.choice(actions)()

    def values(self) -> list[bytes]:
        count = self.random.randint(1, 4)
        self.counter += count
        return [b"%d:" % (self.counter + index) + b"x" * self.random.randint(0, 300) for index in range(count)]

    def append(self) -> None:
        values = self.values()
        options = {}
        if self.random.random() < 0.5:
            state = self.log.producers.get(PRODUCER)
            sequence = 0 if state is None else state.last_sequence + 1
            options = {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": sequence}
        assert self.log.append(batch_of(*values, **options), self.random.randint(self.log.epochs.latest, 5)).base_offset == len(
            self.model
        )
        self.model += values

    def sync(self) -> None:
        self.promised = self.log.sync()
        assert self.promised == len(self.model)

    def checkpoint(self) -> None:
        self.recovery_point = self.log.checkpoint()
        assert self.recovery_point <= self.promised

    def truncate(self) -> None:
        self.log.truncate_to(self.random.randint(0, len(self.model)))
        del self.model[self.log.end_offset :]
        # Until it is synced a crash may undo the cut, as it may undo anything.
        self.promised = self.log.sync()

    def restart_cleanly(self) -> None:
        self.log.close()
        self.recovery_point = self.promised = len(self.model)
        before = self.known()
        self.log = self.reopen(clean=True)
        assert self.known() == before
        assert self.log.findings == []

    def known(self) -> tuple[object, ...]:
        """What must be the same after a restart."""
        producers = [
            (state.producer_id, state.epoch, state.last_sequence, state.last_data_offset) for state in self.log.producers
        ]
        return self.log.end_offset, list(self.log.epochs), producers

    def crash_in_the_middle(self) -> None:
        """Append, sync and write down, and stop the machine in one of the operations that takes."""
        self.disk.crash_after(self.random.randint(0, 12))
        written: list[bytes] = []
        try:
            for _ in range(4):
                values = self.values()
                written += values
                produce(self.log, *values, epoch=max(0, self.log.epochs.latest))
                self.log.sync()
                self.promised = len(self.model) + len(written)
            self.log.checkpoint()
        except SimulatedCrash:
            pass
        self.model += written
        self.crash()

    def crash(self) -> None:
        self.disk.crash()
        self.log = self.reopen(clean=False)
        assert self.log.end_offset >= self.promised, "something promised is lost"
        del self.model[self.log.end_offset :]
        self.promised = len(self.model)
        assert self.log.corruption_count == 0

    def check(self) -> None:
        assert self.log.end_offset == len(self.model)
        assert values_of(self.log, max_bytes=self.random.randint(1, 2000)) == self.model
        for offset in self.random.sample(range(len(self.model)), min(3, len(self.model))):
            assert read_all(self.log, start=offset)[0].value == self.model[offset]


@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 8))])
def test_what_was_synced_survives_any_history_of_crashes(block: int) -> None:
    for seed in range(block * 15, block * 15 + 15):
        walk = Walk(seed)
        for step in range(40):
            try:
                walk.step()
                walk.check()
            except BaseException as error:
                raise AssertionError(f"seed {seed}, step {step}") from error


def test_a_torn_tail_is_cut_at_every_byte() -> None:
    whole = simulated_disk()
    log = open_log(whole, CONFIG)
    for index in range(3):
        produce(log, b"%d" % index * 30)
    size = log.size_bytes
    path = segment_path(DIRECTORY, 0, ".log")
    log.release()
    for cut in range(size + 1):
        disk = simulated_disk()
        disk.make_directory(DIRECTORY)
        file = disk.open(path, create=True)
        file.append([whole.read_bytes(path)[:cut]])
        recovered = open_log(disk, CONFIG)

        kept = sum(1 for end in (size // 3, 2 * size // 3, size) if end <= cut)
        assert values_of(recovered) == [b"%d" % index * 30 for index in range(kept)]
        assert disk.size(path) == kept * size // 3
        assert recovered.corruption_count == 0


def test_what_a_start_finds_counts_as_flushed_only_after_a_sync_of_its_own() -> None:
    disk = simulated_disk()
    log = open_log(disk, CONFIG)
    produce(log, b"never synced by the first process")
    # The process dies, the machine does not: the bytes are in the page cache.
    log = open_log(disk, CONFIG)
    assert log.flushed_offset == 1
    disk.crash()

    assert values_of(open_log(disk, CONFIG)) == [b"never synced by the first process"]


def test_a_segment_whose_name_was_not_synced_is_not_promised() -> None:
    for seed in range(30):
        disk = simulated_disk(seed)
        log = open_log(disk, CONFIG)
        promised = 0
        for index in range(12):
            produce(log, b"%d" % index * 300)
            if index % 3 == 0:
                promised = log.sync()
        disk.crash()
        assert open_log(disk, CONFIG).end_offset >= promised


def test_producers_come_back_from_the_snapshot_without_the_log_being_read() -> None:
    disk = simulated_disk()
    log = open_log(disk, LogConfig())
    for producer_id in range(500):
        log.append(batch_of(b"v" * 20_000, producer_id=producer_id, producer_epoch=2, base_sequence=5), 0)
    log.close()
    reads: list[object] = []
    disk.fail("read", lambda path: bool(path.name.endswith(".log") and reads.append(path)))
    log = open_log(disk, LogConfig(), clean=True)
    disk.heal()

    # A few headers at the end, not one per batch.
    assert len(reads) < 20
    assert len(log.producers) == 500
    with pytest.raises(RequestError) as error:
        log.append(batch_of(b"v", producer_id=3, producer_epoch=2, base_sequence=7), 0)
    assert error.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(batch_of(b"v", producer_id=3, producer_epoch=2, base_sequence=5), 0).duplicate


@pytest.mark.parametrize("clean", [True, False])
def test_transactions_survive_a_restart(clean: bool) -> None:
    disk = simulated_disk()
    config = LogConfig(segment_bytes=500, index_interval_bytes=100)
    log = open_log(disk, config)
    for turn in range(6):
        for producer_id in (1, 2):
            log.append(batch_of(b"v" * 50, producer_id=producer_id, producer_epoch=0, base_sequence=turn, transactional=True), 0)
        end_transaction(log, 1, committed=turn % 2 == 0)
    expected = log.aborted_transactions(0, log.end_offset)
    unstable = log.producers.first_unstable_offset
    log.producers.on_high_watermark(log.end_offset)
    if clean:
        log.close()
    else:
        log.sync()
        disk.crash()
    again = open_log(disk, config, clean=clean)

    assert again.aborted_transactions(0, again.end_offset) == expected
    assert len(expected) == 3
    assert again.producers.first_unstable_offset == log.producers.first_unstable_offset == 1
    assert unstable == 0
    end_transaction(again, 2, committed=False)
    again.producers.on_high_watermark(again.end_offset)
    assert again.producers.first_unstable_offset is None
    assert len(again.aborted_transactions(0, again.end_offset)) == 4


def test_epochs_are_read_from_the_batches_when_their_file_is_gone() -> None:
    disk = simulated_disk()
    log = open_log(disk, CONFIG)
    for index in range(30):
        produce(log, b"v" * 100, epoch=index // 7)
    expected = list(log.epochs)
    log.close()
    disk.remove(DIRECTORY / "leader-epoch-checkpoint")
    again = open_log(disk, CONFIG, clean=True)

    assert list(again.epochs) == expected
    assert len(read_all(again)) == 30


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("snapshots", [True, False])
def test_what_a_producer_wrote_with_old_timestamps_is_known_after_a_restart(clean: bool, snapshots: bool) -> None:
    disk = simulated_disk()
    batch = batch_of(b"v", timestamp=TIME - 2 * 86_400_000, producer_id=1, producer_epoch=0, base_sequence=0)
    log = open_log(disk)
    log.append(batch, 0)
    log.close()
    if not snapshots:
        for path in disk.files():
            if path.name.endswith(".snapshot"):
                disk.remove(path)
    again = open_log(disk, clean=clean)

    assert again.append(batch, 0).duplicate


def test_producers_found_at_a_start_are_quiet_from_then_on_whatever_the_wall_clock_says() -> None:
    disk = simulated_disk()
    config = LogConfig(producer_id_expiration_ms=1000, retention_ms=-1)
    log = open_log(disk, config)
    log.append(batch_of(b"v", producer_id=1, producer_epoch=0, base_sequence=0), 0)
    log.close()
    clock = ManualClock(TIME + 365 * 86_400_000)
    again = open_log(disk, config, clean=True, clock=clock)

    assert len(again.producers) == 1
    clock.now_ms += 999
    again.apply_retention(clock.wall_ms(), 1)
    assert len(again.producers) == 1
    clock.now_ms += 1
    again.apply_retention(clock.wall_ms(), 1)
    assert len(again.producers) == 0
