"""`headrace recover`: the tiered topics of a cluster that was lost, made again from the object store alone."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, Bootstrap, Properties, Yes, open_admin
from headrace.cli.failure import Failure
from headrace.cli.output import confirm, remark, show_table
from headrace.model.settings import SettingError
from headrace.model.tier.lost_topic import LostTopic

SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopic:
    """A topic as the store has it: by partition where it begins and ends, or why that is not known."""

    name: str
    folder: str
    partition_count: int
    settings: dict[str, str]
    ends: dict[int, tuple[int, int]]
    size_bytes: int
    missing: dict[int, str]
    next_epoch: int


def recover(
    source: Annotated[
        str, typer.Option("--from", metavar="URL", help="The object store: s3://bucket/prefix, gs://, az://, file:///.")
    ],
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="ID", help="Which cluster's topics, where the store has several.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what is there.")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Make the tiered topics of a lost cluster again, from the object store alone.

    The brokers of the new cluster must have the same [bold]headrace.remote.url[/bold]. Nothing is copied: each topic gets its
    name, partitions, settings and records back, with their offsets, and goes on behind the last record that was uploaded. The
    lost cluster can no longer change them, should it ever come back. What was only on its disks is gone, and so are consumer
    groups' positions, rights and topics that were not tiered.
    """
    import asyncio

    found = [each for each in asyncio.run(_look(source, cluster)) if topic is None or each.name in topic]
    if not found:
        raise Failure(f"{source} has no topics to recover.")
    show_table(("topic", "partitions", "offsets", "bytes", "without records"), [_row(each) for each in found])
    if dry_run:
        return
    confirm(f"Make {len(found)} topics again?", yes=yes)
    with open_admin(bootstrap, property) as admin:
        there = set(admin.topic_names())
        for each in found:
            if each.name in there:
                remark(f"{each.name}: there is such a topic already; it is left as it is.")
                continue
            origin = LostTopic(each.folder, each.next_epoch)
            settings = each.settings | {"remote.storage.enable": "true", LostTopic.SETTING: str(origin)}
            admin.create_topic(each.name, partitions=each.partition_count, replication=None, settings=settings)
            asyncio.run(_wait_for(admin, each))
            _tell(each)


def _row(topic: FoundTopic) -> tuple[object, ...]:
    offsets = sum(end - start for start, end in topic.ends.values())
    return topic.name, topic.partition_count, offsets, topic.size_bytes, len(topic.missing)


def _tell(topic: FoundTopic) -> None:
    ends = ", ".join(f"{index}: {start} to {end}" for index, (start, end) in sorted(topic.ends.items()))
    remark(f"{topic.name}: recovered ({ends or 'no records'}).")
    for index, why in sorted(topic.missing.items()):
        remark(f"{topic.name}-{index}: {why}")


async def _wait_for(admin: Any, topic: FoundTopic) -> None:
    """Until every partition begins and ends where the store's does."""
    import asyncio

    wanted = {index: end for index, (_, end) in topic.ends.items()}
    deadline = asyncio.get_running_loop().time() + SECONDS_MAX
    while True:
        try:
            ends = admin.offsets(topic.name, at="latest")
        except Exception:
            ends = {}
        if all(ends.get(index, -1) >= end for index, end in wanted.items()):
            return
        if asyncio.get_running_loop().time() > deadline:
            raise Failure(
                f"{topic.name} was made, and does not have its records after {SECONDS_MAX:.0f} s; see the brokers' logs."
            )
        await asyncio.sleep(0.2)


async def _look(url: str, cluster: str | None) -> list[FoundTopic]:
    from headrace.objects.opening import open_object_store
    from headrace.objects.store import StoreError

    try:
        store = open_object_store(url)
        clusters = [folder.rstrip("/") for folder in await store.folders("")]
        if cluster is None and len(clusters) > 1:
            raise Failure(f"{url} has several clusters; choose one with --cluster: {', '.join(clusters)}.")
        chosen = [each for each in clusters if cluster in (None, each)]
        folders = [folder for each in chosen for folder in await store.folders(f"{each}/")]
        found = [await _topic_in(store, folder) for folder in folders]
    except SettingError as error:
        raise Failure(f"{error}.") from error
    except StoreError as error:
        raise Failure(f"{url} cannot be read: {error}.") from error
    return sorted((each for each in found if each is not None), key=lambda each: each.name)


async def _topic_in(store: Any, folder: str) -> FoundTopic | None:
    from headrace.objects.store import ObjectMissing
    from headrace.tier.manifest import ManifestBroken, decode_manifest
    from headrace.tier.naming import DELETED, MANIFEST, TOPIC

    try:
        document = json.loads((await store.get(folder + TOPIC)).data)
    except ObjectMissing:
        return None
    try:
        await store.get(folder + DELETED)
        return None  # it was deleted on purpose
    except ObjectMissing:
        pass
    ends: dict[int, tuple[int, int]] = {}
    missing: dict[int, str] = {}
    size, last_epoch = 0, -1
    for index in range(document["partitions"]):
        try:
            manifest = decode_manifest((await store.get(f"{folder}{index}/{MANIFEST}")).data)
        except ObjectMissing:
            missing[index] = "nothing of it was uploaded."
            continue
        except ManifestBroken as error:
            missing[index] = f"its manifest cannot be read: {error}."
            continue
        if manifest.segments:
            ends[index] = manifest.start_offset, manifest.end_offset
            size += manifest.size_bytes
            last_epoch = max(last_epoch, *(epoch for epoch, _ in manifest.epochs()))
        else:
            missing[index] = "nothing of it was uploaded."
    settings = {name: text for name, text in document["configs"].items() if name != LostTopic.SETTING}
    return FoundTopic(
        name=document["name"],
        folder=folder.rstrip("/"),
        partition_count=document["partitions"],
        settings=settings,
        ends=ends,
        size_bytes=size,
        missing=missing,
        next_epoch=last_epoch + 1,
    )
