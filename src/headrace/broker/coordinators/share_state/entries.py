"""Entries of the share coordinator as records of `__share_group_state`, and back."""

from collections.abc import Iterable

from headrace.coordination.share.delivery import RecordState, StateBatch
from headrace.coordination.share.entries import Entry, ShareKey, ShareState, ShareUpdate, SnapshotEntry, UpdateEntry
from headrace.wire.entries import share as wire


class ShareEntryCodec:
    """Satisfies the runtime's EntryCodec."""

    def encode(self, entry: Entry) -> tuple[bytes, bytes | None]:
        key = wire.SharePartitionKey(group_id=entry.key.group_id, topic_id=entry.key.topic_id, partition=entry.key.partition)
        if isinstance(entry, UpdateEntry):
            return wire.encode_key(wire.UPDATE, key), wire.encode_value(_update(entry.value))
        value = None if entry.value is None else wire.encode_value(_snapshot(entry.value))
        return wire.encode_key(wire.SNAPSHOT, key), value

    def decode(self, key: bytes, value: bytes | None) -> Entry | None:
        read = wire.read_key(key)
        if read is None:
            return None
        kind, about = read
        share = ShareKey(about.group_id, about.topic_id, about.partition)
        if value is None:
            return SnapshotEntry(share, None)
        if kind == wire.SNAPSHOT:
            return SnapshotEntry(share, _state(wire.read_snapshot(value)))
        return UpdateEntry(share, _changes(wire.read_update(value)))


def _snapshot(state: ShareState) -> wire.ShareSnapshotValue:
    return wire.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.done,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=_on_wire(state.batches),
    )


def _update(update: ShareUpdate) -> wire.ShareUpdateValue:
    return wire.ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.done,
        state_batches=_on_wire(update.batches),
    )


def _on_wire(batches: Iterable[StateBatch]) -> tuple[wire.StateBatch, ...]:
    return tuple(
        wire.StateBatch(
            first_offset=batch.first,
            last_offset=batch.end - 1,
            delivery_state=batch.state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    )


def _state(value: wire.ShareSnapshotValue) -> ShareState:
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        done=value.delivery_complete_count,
        created_ms=value.create_timestamp,
        written_ms=value.write_timestamp,
        batches=_batches(value.state_batches),
    )


def _changes(value: wire.ShareUpdateValue) -> ShareUpdate:
    return ShareUpdate(
        snapshot_epoch=value.snapshot_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        done=value.delivery_complete_count,
        batches=_batches(value.state_batches),
    )


def _batches(batches: Iterable[wire.StateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(each.first_offset, each.last_offset + 1, RecordState(each.delivery_state), each.delivery_count)
        for each in batches
    )
