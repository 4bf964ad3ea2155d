"""What leaders do with a manifest: claims, uploads, log starts; and that a deposed one can do nothing."""

from dataclasses import replace

import pytest

from headrace.log.epochs import EpochCache, EpochStart
from headrace.model.topic_settings import LogConfig
from headrace.tier.manifest import Manifest, ManifestBroken, RemoteSegment, decode_manifest, encode_manifest
from headrace.tier.plan import (
    Deposed,
    LocalSegment,
    begun_at,
    claim,
    epochs_within,
    no_longer_named,
    to_upload,
    with_segment,
    written_again,
)
from headrace.tier.retention import local_start_after, log_start_after
from headrace.tier.sweeping import Listed, orphans


def segment(start: int, end: int, *epochs: tuple[int, int], size: int = 100, timestamp: int = 0) -> RemoteSegment:
    return RemoteSegment(
        base_offset=start,
        start_offset=start,
        end_offset=end,
        file_end=end,
        size=size,
        data=f"c/t/0/{start:020d}-1-u.log",
        data_checksum=1,
        rest=f"c/t/0/{start:020d}-1-u.rest",
        rest_size=2,
        rest_checksum=3,
        max_timestamp=timestamp,
        max_timestamp_offset=start,
        aborted=0,
        epochs=epochs or ((0, 0),),
    )


def manifest(*segments: RemoteSegment, epoch: int = 1, log_start: int = 0) -> Manifest:
    return Manifest(topic="t", partition=0, leader_epoch=epoch, log_start=log_start, segments=segments)


def epochs(end: int, *starts: tuple[int, int]) -> EpochCache:
    return EpochCache(lambda: end, [EpochStart(*start) for start in starts])


def test_a_manifest_comes_back_as_it_was_written() -> None:
    written = manifest(segment(0, 10, (0, 0)), segment(10, 20, (0, 0), (2, 15)), epoch=7, log_start=3)

    assert decode_manifest(encode_manifest(written)) == written
    assert written.epochs() == ((0, 0), (2, 15))


@pytest.mark.parametrize("position", [0, 30, 100, -1])
def test_a_manifest_with_a_flipped_bit_is_not_believed(position: int) -> None:
    data = bytearray(encode_manifest(manifest(segment(0, 10))))
    data[position] ^= 1

    with pytest.raises(ManifestBroken):
        decode_manifest(bytes(data))


def test_segments_that_overlap_are_no_manifest() -> None:
    with pytest.raises(ManifestBroken, match="overlap"):
        decode_manifest(encode_manifest(manifest(segment(0, 10), segment(9, 20))))


def test_a_leader_that_was_deposed_can_neither_claim_nor_change_anything() -> None:
    theirs = manifest(segment(0, 10), epoch=5)

    with pytest.raises(Deposed):
        claim(theirs, 4, epochs(10, (0, 0)))
    with pytest.raises(Deposed):
        with_segment(theirs, 4, segment(10, 20))
    with pytest.raises(Deposed):
        begun_at(theirs, 4, 10)
    with pytest.raises(Deposed):
        written_again(theirs, 4)


def test_a_claim_leaves_what_the_new_leader_has_as_well() -> None:
    claimed = claim(manifest(segment(0, 10), segment(10, 20, (0, 0), (1, 15))), 6, epochs(30, (0, 0), (1, 15), (6, 30)))

    assert claimed.leader_epoch == 6
    assert claimed.end_offset == 20
    assert claimed.revision == 1


def test_a_claim_after_an_unclean_election_cuts_what_the_new_leader_never_had() -> None:
    # Epoch 1 ended at 12 for the new leader, which went on in epoch 6.
    claimed = claim(manifest(segment(0, 10), segment(10, 20, (1, 10))), 6, epochs(13, (0, 0), (1, 10), (6, 12)))

    assert [(each.start_offset, each.end_offset) for each in claimed.segments] == [(0, 10), (10, 12)]
    assert claimed.segments[1].file_end == 20


def test_a_claim_drops_segments_of_an_epoch_that_the_new_leader_never_saw() -> None:
    claimed = claim(manifest(segment(0, 10), segment(10, 20, (3, 10))), 6, epochs(13, (0, 0), (6, 10)))

    assert claimed.end_offset == 10


def test_a_log_that_no_longer_knows_old_epochs_keeps_their_segments() -> None:
    claimed = claim(manifest(segment(0, 10, (0, 0)), segment(10, 20, (1, 10))), 6, epochs(50, (4, 20), (6, 50)))

    assert claimed.end_offset == 20


def test_a_segment_is_named_once() -> None:
    named = with_segment(manifest(segment(0, 10)), 1, segment(10, 20))

    assert with_segment(named, 1, segment(10, 20)) is named


def test_uploads_go_on_where_the_store_ends_though_segments_are_cut_elsewhere() -> None:
    closed = [LocalSegment(0, 15, 10, 0), LocalSegment(15, 30, 10, 0), LocalSegment(30, 40, 10, 0), LocalSegment(40, 50, 10, 0)]

    planned = to_upload(manifest(segment(0, 20)), closed, up_to=45)

    assert [(local.base_offset, start) for local, start in planned] == [(15, 20), (30, 30)]


def test_a_log_start_takes_whole_segments_out_of_the_manifest() -> None:
    before = manifest(segment(0, 10), segment(10, 20))

    after = begun_at(before, 1, 15)

    assert after.start_offset == 15
    assert no_longer_named(before, after) == frozenset(segment(0, 10).objects)
    assert begun_at(after, 1, 12) is after


def test_epochs_of_a_segment_are_those_its_records_were_written_in() -> None:
    assert epochs_within([(0, 0), (2, 10), (3, 25)], 15, 25) == ((2, 10),)
    assert epochs_within([(0, 0), (2, 10), (3, 25)], 5, 26) == ((0, 0), (2, 10), (3, 25))


def test_retention_counts_both_parts_together() -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=250)
    local = [LocalSegment(10, 20, 100, 0), LocalSegment(20, 30, 100, 0)]

    start = log_start_after(manifest(segment(0, 10), segment(10, 20)), local, config, 0, 0)

    assert start == 0, "three segments, of which one is in both parts, are 300 bytes: none is wholly too much"
    assert log_start_after(manifest(segment(0, 10), segment(10, 20)), local, replace(config, retention_bytes=200), 0, 0) == 10


def test_retention_by_time_ends_at_the_first_segment_that_is_young_enough() -> None:
    config = LogConfig(retention_ms=1000)
    remote = manifest(segment(0, 10, timestamp=1), segment(10, 20, timestamp=5000))

    assert log_start_after(remote, [LocalSegment(20, 30, 1, 1)], config, 2000, 0) == 10
    assert log_start_after(remote, [], config, 20_000, 0) == 20


def test_nothing_leaves_the_disk_that_the_store_does_not_have() -> None:
    config = LogConfig(retention_ms=-1, local_retention_ms=0, local_retention_bytes=0)
    local = [LocalSegment(0, 10, 100, 1), LocalSegment(10, 20, 100, 1), LocalSegment(20, 30, 100, 1)]

    assert local_start_after(20, local, 300, config, 1000, 0) == 20
    assert local_start_after(19, local, 300, config, 1000, 0) == 10
    assert local_start_after(-1, local, 300, config, 1000, 0) == 0


def test_local_retention_is_that_of_the_whole_unless_set() -> None:
    local = [LocalSegment(0, 10, 100, 1), LocalSegment(10, 20, 100, 1)]

    assert local_start_after(20, local, 200, LogConfig(retention_ms=5000), 1000, 0) == 0
    assert local_start_after(20, local, 200, LogConfig(retention_ms=500), 1000, 0) == 20
    assert local_start_after(20, local, 200, LogConfig(retention_ms=-1, local_retention_bytes=100), 1000, 0) == 10


def test_the_sweeper_leaves_what_is_named_what_is_young_and_what_newer_leaders_made() -> None:
    kept = segment(0, 10)
    orphan, young = "c/t/0/00000000000000000010-1-x.log", "c/t/0/00000000000000000010-1-y.rest"
    newer = "c/t/0/00000000000000000010-2-z.log"
    listed = [Listed(key, 1, 0) for key in (*kept.objects, orphan, newer, "c/t/0/manifest.json")] + [Listed(young, 1, 950)]

    assert orphans(listed, manifest(kept), 1, newest_ms=1000, grace_ms=100) == [orphan]
