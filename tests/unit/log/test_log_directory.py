"""A data directory: locked, owned, and honest about how far its logs are."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from headrace.host.disk import SystemDisk
from headrace.log.directory import DirectoryInUse, DirectoryMismatch, LogDirectory, parse_directory_name
from headrace.log.durability.checkpoints import decode_partition_metadata, encode_partition_metadata
from headrace.log.log import Log
from headrace.log.recovery.inspect import inspect_segment
from headrace.log.recovery.verification import Finding, verify_directory
from headrace.model.errors import NoRoom, StorageError
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig
from headrace.testing.disk import SimulatedCrash, SimulatedDisk
from tests.unit.log.storing import ManualClock, batch_of, produce, simulated_disk, values_of

DATA = Path("/data")
ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("pay-ments", 11)
TOPIC_ID = UUID("12345678-1234-5678-1234-567812345678")


def opened(disk: SimulatedDisk) -> LogDirectory:
    return LogDirectory(DATA, disk, ManualClock())


def filled(disk: SimulatedDisk) -> tuple[LogDirectory, dict[TopicPartition, Log]]:
    directory = opened(disk)
    logs = {identity: directory.open_log(identity, TOPIC_ID, LogConfig(segment_bytes=500)) for identity in (ORDERS, PAYMENTS)}
    for log in logs.values():
        for index in range(10):
            produce(log, b"%d" % index * 30)
        log.sync()
    return directory, logs


def all_logs(directory: LogDirectory) -> dict[TopicPartition, Log]:
    directory.finish_deletions()
    config = LogConfig(segment_bytes=500)
    return {identity: directory.open_log(identity, topic_id, config) for identity, topic_id in directory.partitions().items()}


def test_logs_are_found_again_after_a_clean_close() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    directory.close(logs, {ORDERS: 8, PAYMENTS: 10})
    again = opened(disk)

    assert again.was_clean
    assert again.partitions() == {ORDERS: TOPIC_ID, PAYMENTS: TOPIC_ID}
    assert again.high_watermark(ORDERS) == 8
    for log in all_logs(again).values():
        assert values_of(log) == [b"%d" % index * 30 for index in range(10)]
        assert log.findings == []


def test_the_clean_mark_is_gone_as_soon_as_a_log_is_opened_and_not_before() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    directory.close(logs, {})
    assert opened(disk).was_clean
    disk.crash()
    again = opened(disk)
    assert again.was_clean
    again.open_log(ORDERS, TOPIC_ID, LogConfig())
    disk.crash()

    assert not opened(disk).was_clean


def test_a_close_before_all_logs_were_recovered_leaves_no_clean_mark() -> None:
    disk = simulated_disk()
    filled(disk)
    disk.crash()
    again = opened(disk)
    again.close({ORDERS: again.open_log(ORDERS, TOPIC_ID, LogConfig())}, {})
    assert not opened(disk).was_clean

    third = opened(disk)
    third.close(all_logs(third), {})
    assert opened(disk).was_clean


def test_logs_are_not_opened_once_the_start_is_given_up() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    directory.close(logs, {})
    again = opened(disk)
    again.give_up()

    with pytest.raises(StorageError, match="given up"):
        again.open_log(ORDERS, TOPIC_ID, LogConfig())
    assert opened(disk).was_clean


def test_logs_are_closed_in_many_threads_with_few_files_open(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path, SystemDisk(), ManualClock(), open_files_max=4)
    names = [TopicPartition("orders", index) for index in range(160)]
    logs = {name: directory.open_log(name, TOPIC_ID, LogConfig()) for name in names}
    for log in logs.values():
        produce(log, b"a")
        log.sync()
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(directory.close_logs, [{name: logs[name] for name in names[lane::16]} for lane in range(16)]))
    directory.close(logs, {})
    again = LogDirectory(tmp_path, SystemDisk(), ManualClock())

    assert again.was_clean
    assert {name for name, log in all_logs(again).items() if values_of(log) == [b"a"]} == set(names)


def test_an_idle_log_that_is_closed_again_writes_nothing(tmp_path: Path) -> None:
    def close_and_look() -> dict[str, int]:
        directory = LogDirectory(tmp_path, SystemDisk(), ManualClock())
        log = directory.open_log(ORDERS, TOPIC_ID, LogConfig())
        if log.end_offset == 0:
            produce(log, b"a")
        directory.close({ORDERS: log}, {})
        return {path.name: path.stat().st_mtime_ns for path in directory.directory_of(ORDERS).iterdir()}

    close_and_look()
    written = close_and_look()

    assert close_and_look() == written


def test_a_log_that_failed_leaves_no_clean_mark() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    disk.fail("write", lambda path: "orders-0" in str(path) and path.name.endswith(".log"))
    with pytest.raises(StorageError):
        produce(logs[ORDERS], b"x")
    disk.heal()
    directory.close(logs, {})

    assert not opened(disk).was_clean


def test_a_second_process_is_refused_with_a_sentence(tmp_path: Path) -> None:
    first = LogDirectory(tmp_path, SystemDisk(), ManualClock())
    with pytest.raises(DirectoryInUse, match="another broker is using the data directory"):
        LogDirectory(tmp_path, SystemDisk(), ManualClock())
    first.release()
    LogDirectory(tmp_path, SystemDisk(), ManualClock()).release()


def test_a_directory_of_another_cluster_or_broker_is_refused() -> None:
    disk = simulated_disk()
    opened(disk).adopt("cluster-a", 1)
    again = opened(disk)
    again.adopt("cluster-a", 1)

    assert again.properties["cluster.id"] == "cluster-a"
    with pytest.raises(DirectoryMismatch, match=r"cluster\.id"):
        again.adopt("cluster-b", 1)
    with pytest.raises(
        DirectoryMismatch, match=r" belongs to node\.id 1, but this broker's is 2; use node\.id=1 or another --data"
    ):
        again.adopt("cluster-a", 2)


def test_a_log_of_another_topic_id_is_not_opened() -> None:
    disk = simulated_disk()
    filled(disk)
    with pytest.raises(StorageError, match="belongs to a topic"):
        opened(disk).open_log(ORDERS, uuid4(), LogConfig())


def test_after_a_crash_only_what_lies_above_the_recovery_point_is_read() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    directory.checkpoint(logs, {})
    log = logs[ORDERS]
    for _ in range(10):
        produce(log, b"v" * 100)
    log.sync()
    directory.checkpoint(logs, {})
    # The end of the segment before is looked at, to see that the epochs are all known.
    first_unread = log.segments[-2].base_offset
    log.sync()
    disk.crash()
    fault = disk.fail(
        "read", lambda path: "orders-0" in str(path) and path.name.endswith(".log") and int(path.name[:20]) < first_unread
    )
    again = opened(disk).open_log(ORDERS, TOPIC_ID, LogConfig(segment_bytes=500))
    disk.heal()

    assert len(log.segments) > 3
    assert fault.hits == 0
    assert again.end_offset == 20
    assert values_of(again)[:10] == [b"%d" % index * 30 for index in range(10)]


def test_a_log_that_is_deleted_while_checkpoints_are_written_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    directory, logs = filled(simulated_disk())
    produce(logs[ORDERS], b"more")
    directory.delete_log(ORDERS)

    directory.checkpoint(logs, {})

    assert caplog.messages == []


def test_deleted_records_stay_deleted_once_written_down() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    logs[ORDERS].delete_before(5)
    assert directory.write_log_starts({ORDERS: logs[ORDERS]}) == {ORDERS: 5}
    disk.crash()

    assert opened(disk).open_log(ORDERS, TOPIC_ID, LogConfig(segment_bytes=500)).start_offset == 5


def test_deleted_records_stay_deleted_whenever_the_machine_stops_after_the_answer() -> None:
    for step in range(200):
        disk = simulated_disk(step)
        directory, logs = filled(disk)
        disk.crash_after(step)
        try:
            for removed in logs[ORDERS].delete_before(7):
                removed.unlink()
            directory.write_log_starts({ORDERS: logs[ORDERS]})
            answered = True
        except SimulatedCrash:
            answered = False
        disk.crash()
        again = all_logs(opened(disk))

        assert again[ORDERS].start_offset >= (7 if answered else 0), f"step {step}"
        assert again[ORDERS].end_offset == 10
        assert again[PAYMENTS].start_offset == 0
        if answered:
            return
    pytest.fail("it never finished")


def test_records_written_after_a_cut_below_the_log_start_are_never_taken_for_deleted() -> None:
    for step in range(200):
        disk = simulated_disk(step)
        directory, logs = filled(disk)
        log = logs[ORDERS]
        log.delete_before(8)
        directory.write_log_starts({ORDERS: log})
        disk.crash_after(step)
        try:
            # Another leader, elected although it lacks records, has fewer than were deleted here.
            log.truncate_to(3)
            for index in range(4):
                produce(log, b"new %d" % index, epoch=1)
            log.sync()
            finished = True
        except SimulatedCrash:
            finished = False
        disk.crash()
        again = all_logs(opened(disk))[ORDERS]

        if finished:
            assert values_of(again)[-4:] == [b"new 0", b"new 1", b"new 2", b"new 3"], f"step {step}"
            return
    pytest.fail("it never finished")


def test_offsets_of_deleted_records_are_not_given_out_again_when_a_power_failure_takes_the_records() -> None:
    disk = simulated_disk()
    directory = opened(disk)
    log = directory.open_log(ORDERS, TOPIC_ID, LogConfig(segment_bytes=500))
    produce(log, b"durable")
    log.sync()
    for _ in range(9):
        produce(log, b"in memory only" * 20)
    log.delete_before(10)
    directory.write_log_starts({ORDERS: log})
    for path in disk.files():
        if path.suffix == ".log":
            disk.cut(path, 75 if path.name.startswith("0" * 20) else 0)
    disk.crash()
    again = all_logs(opened(disk))[ORDERS]

    assert (again.start_offset, again.end_offset) == (10, 10)
    assert produce(again, b"next") == 10
    again.sync()
    disk.crash()
    assert values_of(all_logs(opened(disk))[ORDERS]) == [b"next"]


def test_a_log_start_of_a_deleted_topic_is_not_written_down_for_its_namesake() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    old = logs[ORDERS]
    old.delete_before(7)
    old.release()
    directory.delete_log(ORDERS)
    new = directory.open_log(ORDERS, uuid4(), LogConfig())
    directory.write_log_starts({ORDERS: old})
    directory.checkpoint({ORDERS: old}, {})
    produce(new, b"new")
    new.sync()
    disk.crash()

    assert values_of(all_logs(opened(disk))[ORDERS]) == [b"new"]


def test_a_checkpoint_that_is_under_way_does_not_raise_what_a_cut_has_lowered() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    log = logs[ORDERS]
    cut = log.truncation.begin(4)
    log.truncation.prepare(cut)
    directory.checkpoint(logs, {})
    log.truncate_to(4)
    log.truncation.end(cut)
    log.sync()
    disk.crash()
    again = opened(disk).open_log(ORDERS, TOPIC_ID, LogConfig(segment_bytes=500))

    assert again.end_offset == 4
    assert again.corruption_count == 0
    assert not [finding for finding in again.findings if "lost" in finding]


def test_a_truncation_is_never_taken_for_a_loss() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    directory.checkpoint(logs, {})
    logs[ORDERS].truncate_to(4)
    logs[ORDERS].sync()
    disk.crash()
    again = opened(disk).open_log(ORDERS, TOPIC_ID, LogConfig(segment_bytes=500))

    assert again.end_offset == 4
    assert again.corruption_count == 0


def test_a_full_disk_puts_off_a_log_whose_namesake_was_deleted_and_it_inherits_nothing_later() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    directory.checkpoint(logs, {ORDERS: 8, PAYMENTS: 10})
    directory.delete_log(ORDERS)
    disk.fail("write", "checksums.tmp", error=errno.ENOSPC)
    for _ in range(2):
        with pytest.raises(NoRoom):
            directory.open_log(ORDERS, uuid4(), LogConfig())
    disk.heal()
    directory.open_log(ORDERS, uuid4(), LogConfig())
    disk.crash()

    assert opened(disk).high_watermark(ORDERS) == 0


def test_a_new_topic_does_not_inherit_from_a_deleted_one_of_the_same_name() -> None:
    for seed in range(20):
        disk = simulated_disk(seed)
        directory, logs = filled(disk)
        logs[ORDERS].delete_before(7)
        directory.checkpoint(logs, {ORDERS: 10})
        logs[ORDERS].release()
        directory.delete_log(ORDERS)
        log = directory.open_log(ORDERS, uuid4(), LogConfig())
        assert (log.start_offset, log.end_offset, directory.high_watermark(ORDERS)) == (0, 0, 0)
        produce(log, b"new")
        log.sync()
        disk.crash()
        again = all_logs(opened(disk))[ORDERS]

        assert values_of(again) == [b"new"]
        assert again.corruption_count == 0


def test_a_log_opened_a_second_time_is_not_taken_for_clean() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    directory.close(logs, {})
    directory = opened(disk)
    log = directory.open_log(ORDERS, TOPIC_ID, LogConfig(segment_bytes=500))
    produce(log, b"more")
    log.release()
    again = directory.open_log(ORDERS, TOPIC_ID, LogConfig(segment_bytes=500))

    assert values_of(again)[-1] == b"more"
    assert again.end_offset == 11


def test_a_deletion_survives_a_crash_at_every_step() -> None:
    for step in range(200):
        disk = simulated_disk(step)
        directory, _ = filled(disk)
        disk.crash_after(step)
        try:
            directory.delete_log(ORDERS)
            finished = True
        except SimulatedCrash:
            finished = False
        disk.crash()
        logs = all_logs(opened(disk))
        # All of it or nothing.
        assert values_of(logs[PAYMENTS]) == [b"%d" % index * 30 for index in range(10)]
        if ORDERS in logs:
            assert values_of(logs[ORDERS]) == [b"%d" % index * 30 for index in range(10)]
            assert not finished
        assert not [name for name in disk.list_names(DATA) if name.endswith("-delete")]
        if finished:
            return
    pytest.fail("the deletion never finished")


def test_a_long_topic_name_can_be_deleted() -> None:
    disk = simulated_disk()
    identity = TopicPartition("t" * 249, 123)
    directory = opened(disk)
    directory.open_log(identity, TOPIC_ID, LogConfig())
    renames: list[Path] = []
    disk.fail("rename", lambda path: bool(renames.append(path)))
    directory.delete_log(identity)

    assert directory.partitions() == {}
    assert all(len(path.name) <= 255 for path in renames)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", ORDERS),
        ("pay-ments-11", PAYMENTS),
        ("orders", None),
        ("orders-x", None),
        ("-0", None),
        ("orders-0.abcdef-delete", None),
        ("checksums", None),
        ("__consumer_offsets-49", TopicPartition("__consumer_offsets", 49)),
    ],
)
def test_a_directorys_name_says_which_partition_it_is(name: str, expected: TopicPartition | None) -> None:
    assert parse_directory_name(name) == expected


def test_partition_metadata_has_kafkas_form() -> None:
    text = encode_partition_metadata(TOPIC_ID)

    assert text == b"version: 0\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA\n"
    assert decode_partition_metadata(text) == TOPIC_ID


def test_a_partition_without_a_readable_id_is_kept_and_written_anew() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    directory.close(logs, {})
    disk.flip_bit(DATA / "orders-0" / "partition.metadata", 25, 1)
    again = opened(disk)

    assert again.partitions()[ORDERS] is None
    assert values_of(again.open_log(ORDERS, TOPIC_ID, LogConfig(segment_bytes=500))) == [
        b"%d" % index * 30 for index in range(10)
    ]
    assert again.partitions()[ORDERS] == TOPIC_ID


def test_a_log_with_acknowledged_records_keeps_its_topic_id_through_a_power_failure() -> None:
    for seed in range(40):
        disk = simulated_disk(seed)
        directory, logs = filled(disk)
        if seed % 2:
            directory.close(logs, {})
        disk.crash()

        assert opened(disk).partitions() == {ORDERS: TOPIC_ID, PAYMENTS: TOPIC_ID}, seed


# -- from outside


def findings_in(path: Path, disk: SimulatedDisk) -> list[Finding]:
    return [finding for report in verify_directory(path, disk) for finding in report.findings]


def test_a_sound_directory_has_nothing_to_report() -> None:
    disk = simulated_disk()
    directory, logs = filled(disk)
    directory.close(logs, {})

    assert findings_in(DATA, disk) == []
    assert findings_in(DATA / "orders-0", disk) == []


def test_every_batch_of_a_segment_is_shown_with_a_verdict() -> None:
    disk = simulated_disk()
    filled(disk)
    path = DATA / "orders-0" / f"{0:020d}.log"
    size = disk.size(path)
    whole = list(inspect_segment(path, disk))
    disk.flip_bit(path, whole[1].position + 70)
    disk.open(path).append([b"torn"])
    reports = list(inspect_segment(path, disk))

    assert all(report.batch is not None for report in whole)
    assert [report.batch.header.base_offset if report.batch else None for report in reports] == [
        None if index == 1 else index for index in range(len(whole))
    ] + [None]
    assert "CRC" in reports[1].note
    assert reports[-1].position == size
    assert sum(report.size for report in reports) == size + 4


@pytest.mark.parametrize(
    "name",
    [
        f"{0:020d}.log",
        f"{0:020d}.index",
        f"{0:020d}.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "checksums",
        "durable-offset",
    ],
)
def test_verification_names_the_file_that_is_broken(name: str) -> None:
    disk = simulated_disk()
    directory = opened(disk)
    log = directory.open_log(ORDERS, TOPIC_ID, LogConfig(index_interval_bytes=50))
    for index in range(10):
        produce(log, b"%d" % index * 30)
    log.roll()
    directory.close({ORDERS: log}, {})
    disk.flip_bit(DATA / "orders-0" / name, disk.size(DATA / "orders-0" / name) - 2, 2)
    findings = findings_in(DATA, disk)

    assert name in {finding.path.name for finding in findings}


def test_a_power_failure_right_after_a_clean_close_costs_only_time() -> None:
    for seed in range(40):
        disk = simulated_disk(seed)
        directory = opened(disk)
        log = directory.open_log(ORDERS, TOPIC_ID, LogConfig(segment_bytes=400, index_interval_bytes=100))
        for index in range(12):
            log.append(
                batch_of(
                    b"%d" % index * 30, timestamp=1_700_000_000_000 + index, producer_id=4, producer_epoch=0, base_sequence=index
                ),
                index // 3,
            )
            if index == 5:
                log.sync()
                directory.checkpoint({ORDERS: log}, {})
        epochs = list(log.epochs)
        directory.close({ORDERS: log}, {ORDERS: 12})
        disk.crash()
        for _ in range(2):
            again = opened(disk).open_log(ORDERS, TOPIC_ID, LogConfig(segment_bytes=400, index_interval_bytes=100))
            assert values_of(again) == [b"%d" % index * 30 for index in range(12)], seed
            assert list(again.epochs) == epochs, seed
            state = again.producers.get(4)
            assert state is not None, seed
            assert state.last_sequence == 11, seed
            assert [segment.largest_timestamp() for segment in again.segments if segment.size][-1] == 1_700_000_000_011, seed
            again.release()
            disk.crash()
