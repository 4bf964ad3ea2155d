"""How fast groups are: commits, rebalances over 200 partitions, taking over from who goes, starting with many offsets."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import NewTopic

from benchmarks.broker.group_members import SESSION_MS, ClassicMember, Connection, ModernMember, together
from benchmarks.broker.target import Target, data_directory, fresh_broker, serving
from benchmarks.broker.throughput import quiet_admin, temporary_topic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

COLUMNS = ("what", "broker", "members", "figure", "unit")
PARTITIONS = 200
MEMBERS = (2, 20, 100)
BEAT_PAUSE_S = 0.05
GROUP = "bench"
COMMITTED = 7


def rows(quick: bool, peers: list[Target]) -> Iterator[tuple[object, ...]]:
    with fresh_broker("ack") as own:
        for target in (own, *peers):
            yield from measure(target, quick)
    yield starting(10_000 if quick else 100_000)


def measure(target: Target, quick: bool) -> Iterator[tuple[object, ...]]:
    with temporary_topic(target, PARTITIONS) as topic:
        seconds = 1.0 if quick else 3.0
        for connections in (1, 20):
            rate = asyncio.run(commits_per_second(target, topic, connections, seconds))
            yield "offset commits, 10 partitions each", target.name, connections, f"{rate:,.0f}", "requests/s"
        for members in MEMBERS[:2] if quick else MEMBERS:
            joined, left = asyncio.run(classic_rebalance(target, members))
            yield "rebalance when one more joins, classic", target.name, members, f"{joined * 1000:,.0f}", "ms"
            yield "from a member's leave to a new generation, classic", target.name, members, f"{left * 1000:,.0f}", "ms"
            joined, left = asyncio.run(modern_rebalance(target, topic, members))
            yield "rebalance when one more joins, KIP-848", target.name, members, f"{joined * 1000:,.0f}", "ms"
            yield "from a member's leave to its partitions owned, KIP-848", target.name, members, f"{left * 1000:,.0f}", "ms"
        death = asyncio.run(classic_death(target))
        yield f"from a member's death to a new generation, session {SESSION_MS} ms", target.name, 2, f"{death * 1000:,.0f}", "ms"


async def found(target: Target, group: str) -> Connection:
    """A connection to the coordinator, which is the one broker there is."""
    connection = await Connection.open(target.address)
    while (await connection.call(FindCoordinatorRequest(key=group), 3)).error_code:
        await asyncio.sleep(0.05)
    return connection


# --- commits ----------------------------------------------------------------------------------------------------------------


def commit_request(topic: str, partitions: range, offset: int, group: str = GROUP) -> OffsetCommitRequest:
    committed = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index in partitions
    )
    return OffsetCommitRequest(group_id=group, topics=(OffsetCommitRequestTopic(name=topic, partitions=committed),))


async def commits_per_second(target: Target, topic: str, connections: int, seconds: float) -> float:
    """Each connection waits for its answer before it commits again."""
    everyone = [await found(target, GROUP) for _ in range(connections)]
    counts = [0] * connections
    end = time.perf_counter() + seconds

    async def commit(number: int) -> None:
        while time.perf_counter() < end:
            await everyone[number].call(commit_request(topic, range(10), counts[number]), 9)
            counts[number] += 1

    await together(range(connections), commit)
    for connection in everyone:
        connection.close()
    return sum(counts) / seconds


# --- rebalances -------------------------------------------------------------------------------------------------------------


async def classic_group(target: Target, group: str, count: int) -> list[ClassicMember]:
    members = [ClassicMember(await found(target, group), group) for _ in range(count)]
    await together(members, lambda member: member.join())
    while len({member.generation for member in members}) > 1:
        behind = [member for member in members if member.generation < max(each.generation for each in members)]
        await together(behind, lambda member: member.join())
    return members


async def classic_rebalance(target: Target, count: int) -> tuple[float, float]:
    """From one more member's JoinGroup until all have synced; then from its LeaveGroup until the others have."""
    group = f"classic-{count}"
    members = await classic_group(target, group, count)
    late = ClassicMember(await found(target, group), group)
    began = time.perf_counter()
    await asyncio.gather(late.join(), *(member.follow(BEAT_PAUSE_S) for member in members))
    joined = time.perf_counter() - began
    began = time.perf_counter()
    await asyncio.gather(late.leave(), *(member.follow(BEAT_PAUSE_S) for member in members))
    left = time.perf_counter() - began
    await together(members, lambda member: member.leave())
    return joined, left


async def classic_death(target: Target) -> float:
    survivor, _ = await classic_group(target, "classic-death", 2)
    began = time.perf_counter()
    await survivor.follow(BEAT_PAUSE_S)
    taken = time.perf_counter() - began
    await survivor.leave()
    return taken


async def modern_rebalance(target: Target, topic: str, count: int) -> tuple[float, float]:
    """From one more member's first heartbeat until all have their share, then from its leaving until the others have it, with
    members that beat all the time."""
    group = f"modern-{count}"
    members = [ModernMember(await found(target, group), group, topic, f"member-{number}") for number in range(count)]
    await until_shared(members)
    late = ModernMember(await found(target, group), group, topic, "late")
    began = time.perf_counter()
    await until_shared([*members, late])
    joined = time.perf_counter() - began
    began = time.perf_counter()
    await late.leave()
    await until_shared(members)
    left = time.perf_counter() - began
    await together(members, lambda member: member.leave())
    return joined, left


async def until_shared(members: list[ModernMember]) -> None:
    while not is_shared(members):
        await together(members, lambda member: member.beat())


def is_shared(members: list[ModernMember]) -> bool:
    least = PARTITIONS // len(members)
    return sum(member.count for member in members) == PARTITIONS and all(member.count >= least for member in members)


# --- starting ---------------------------------------------------------------------------------------------------------------


@contextmanager
def with_offsets(count: int) -> Iterator[tuple[Target, float]]:
    """A broker that starts with so many committed offsets, of as many groups as that takes."""
    with data_directory() as data:
        with serving(data, "ack") as (target, _):
            admin = quiet_admin(target)
            admin.create_topics([NewTopic("read", PARTITIONS, 1)])["read"].result(30)
            asyncio.run(commit_many(target, "read", count))
        began = time.perf_counter()
        with serving(data, "ack") as (target, _):
            yield target, began


def groups_of(count: int) -> list[str]:
    return [f"{GROUP}-{number}" for number in range(count // PARTITIONS)]


async def commit_many(target: Target, topic: str, count: int) -> None:
    connection = await found(target, GROUP)
    for group in groups_of(count):
        reply = await connection.call(commit_request(topic, range(PARTITIONS), COMMITTED, group), 9)
        assert not any(partition.error_code for partition in reply.topics[0].partitions)


def starting(count: int) -> tuple[object, ...]:
    with with_offsets(count) as (target, began):
        asyncio.run(until_loaded(target, count))
        taken = time.perf_counter() - began
        return f"from start to the last of {count:,} offsets answered", target.name, "", f"{taken * 1000:,.0f}", "ms"


async def until_loaded(target: Target, count: int) -> None:
    """Ask for one offset of each group: to read all of them here would be measured, too."""
    connection = await found(target, GROUP)
    last = OffsetFetchRequestTopics(name="read", partition_indexes=(PARTITIONS - 1,))
    groups = tuple(OffsetFetchRequestGroup(group_id=group, topics=(last,)) for group in groups_of(count))
    while True:
        answered = (await connection.call(OffsetFetchRequest(groups=groups), 9)).groups
        if not any(group.error_code for group in answered):
            offsets = {partition.committed_offset for group in answered for partition in group.topics[0].partitions}
            assert offsets == {COMMITTED}, "every offset is as it was committed"
            return
        await asyncio.sleep(0.01)
