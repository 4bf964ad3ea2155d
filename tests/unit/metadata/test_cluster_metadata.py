"""One broker's view of the metadata, on every kind of store, and several brokers on one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.controller.changes import Change, TopicConfigsChanged, TopicCreated, TopicDeleted, TopicGrew
from headrace.controller.entries import BrokerRegistration, Condition, ConditionalWrite, Event, Operation, Put
from headrace.controller.image import ClusterImage
from headrace.controller.topics import TopicSpec, clean_up
from headrace.host.entropy import SystemEntropy
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.membership import BrokerMembership
from headrace.metadata.memory import MemoryStore
from headrace.metadata.sqlite import SqliteStore
from headrace.metadata.store import MetadataStore, TransactionResult, WatchBatch
from headrace.model.errors import ErrorCode, RequestError
from headrace.testing.tasks import keep

OpenStore = Callable[[], Awaitable[MetadataStore]]


async def open_view(store: MetadataStore) -> ClusterMetadata:
    view = ClusterMetadata(store, SystemEntropy())
    await view.start(keep)
    return view


async def join(
    view: ClusterMetadata, broker_id: int = 1, lost: Callable[[], None] = lambda: None, ttl_s: float = 30
) -> BrokerMembership:
    membership = BrokerMembership(view, BrokerRegistration(broker_id=broker_id), on_lost=lost, lease_ttl_s=ttl_s)
    await membership.join(keep)
    return membership


def spec(view: ClusterMetadata, name: str = "t", partitions: int = 1, factor: int = 1) -> TopicSpec:
    return TopicSpec(name=name, topic_id=view.new_topic_id(), partition_count=partitions, replication_factor=factor)


def tell(open_store: OpenStore, story: Callable[[ClusterMetadata], Awaitable[None]]) -> None:
    async def run() -> None:
        store = await open_store()
        view = await open_view(store)
        membership = await join(view)
        try:
            async with asyncio.timeout(30):
                await story(view)
        finally:
            await membership.leave()
            await view.close()
            await store.close()

    asyncio.run(run())


def test_each_command_returns_when_this_broker_sees_its_effect(open_store: OpenStore) -> None:
    async def story(view: ClusterMetadata) -> None:
        heard: list[Change] = []
        view.on_change(heard.extend, renewed=lambda: None)
        await view.create_topic(spec(view, partitions=3))
        assert view.image.topics["t"].partition_count == 3
        await view.create_partitions("t", 5)
        assert view.image.topics["t"].partition_count == 5
        await view.alter_topic_configs("t", lambda before: {**before, "a": "1"})
        assert view.image.topics["t"].configs == {"a": "1"}
        await view.alter_broker_configs(1, lambda before: {**before, "b": "2"})
        assert view.image.configs_of_broker(1) == {"b": "2"}
        await view.alter_broker_configs(1, lambda before: {})
        assert view.image.configs_of_broker(1) == {}
        await view.delete_topic("t")
        assert view.image.topics == {}
        shown = [
            type(change) for change in heard if isinstance(change, TopicCreated | TopicGrew | TopicConfigsChanged | TopicDeleted)
        ]
        assert shown == [TopicCreated, TopicGrew, TopicConfigsChanged, TopicDeleted]

    tell(open_store, story)


def test_a_topic_of_many_partitions_is_made_and_removed(open_store: OpenStore) -> None:
    async def story(view: ClusterMetadata) -> None:
        await view.create_topic(spec(view, partitions=1_050))
        assert view.image.topics["t"].partition_count == 1_050
        await view.delete_topic("t")

        assert [item.key for item in (await view.store.list("partitions/")).items] == []
        assert view.image.garbage() == []

    tell(open_store, story)


def test_a_topic_of_many_partitions_comes_and_goes_in_turns_between_which_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_sqlite() -> MetadataStore:
        return await SqliteStore.open(tmp_path / "metadata")

    async def story(view: ClusterMetadata) -> None:
        taken = [0]
        apply = ClusterImage.apply

        def counted(image: ClusterImage, event: Event) -> list[Change]:
            taken[-1] += 1
            return apply(image, event)

        async def count_turns() -> None:
            while True:
                taken.append(0)
                await asyncio.sleep(0)

        monkeypatch.setattr(ClusterImage, "apply", counted)
        turns = asyncio.create_task(count_turns())
        try:
            await view.create_topic(spec(view, partitions=3500))
            await view.delete_topic("t")
        finally:
            turns.cancel()

        assert sum(taken) > 2 * 3500
        assert max(taken) <= 1001
        assert not view.image.garbage()

    tell(open_sqlite, story)


def test_producer_ids_are_never_given_twice_however_many_ask(open_store: OpenStore) -> None:
    async def story(view: ClusterMetadata) -> None:
        blocks = await asyncio.gather(*(view.allocate_producer_ids(10) for _ in range(5)))

        assert sorted(producer_id for block in blocks for producer_id in block) == list(range(50))

    tell(open_store, story)


def test_deleting_or_growing_what_is_not_there_is_refused(open_store: OpenStore) -> None:
    async def story(view: ClusterMetadata) -> None:
        for attempt in (
            view.delete_topic("x"),
            view.create_partitions("x", 3),
            view.alter_topic_configs("x", lambda before: before),
        ):
            with pytest.raises(RequestError) as refused:
                await attempt
            assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    tell(open_store, story)


def test_two_brokers_that_change_one_topic_at_once_both_succeed(open_store: OpenStore) -> None:
    async def story(view: ClusterMetadata) -> None:
        other = await open_view(view.store)
        await view.create_topic(spec(view))
        await other.wait_until(lambda image: "t" in image.topics, 5)
        await asyncio.gather(
            view.alter_topic_configs("t", lambda before: {**before, "a": "1"}),
            other.alter_topic_configs("t", lambda before: {**before, "b": "2"}),
            other.create_partitions("t", 4),
        )
        await view.wait_until(lambda image: image.revision >= other.image.revision, 5)

        assert view.image.topics["t"].configs == {"a": "1", "b": "2"}
        assert view.image.topics["t"].partition_count == 4
        await other.close()

    tell(open_store, story)


def test_of_two_brokers_that_make_one_topic_one_is_told_that_it_exists(open_store: OpenStore) -> None:
    async def story(view: ClusterMetadata) -> None:
        other = await open_view(view.store)
        results = await asyncio.gather(view.create_topic(spec(view)), other.create_topic(spec(other)), return_exceptions=True)
        refused = [result for result in results if isinstance(result, RequestError)]

        assert len(refused) == 1
        assert refused[0].code is ErrorCode.TOPIC_ALREADY_EXISTS
        await other.close()

    tell(open_store, story)


class LateStore:
    """Lets a broker hear of what others wrote only when it is told to."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.may_hear = asyncio.Event()
        self.asked = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        self.asked.set()
        return await self._store.transact(conditions, operations)

    async def watch(self, prefix: str, start_revision: int) -> AsyncIterator[WatchBatch]:
        async for batch in self._store.watch(prefix, start_revision):
            await self.may_hear.wait()
            yield batch


def test_a_broker_that_finds_nothing_to_do_makes_sure_that_it_has_heard_everything(open_store: OpenStore) -> None:
    async def story(view: ClusterMetadata) -> None:
        late: Any = LateStore(view.store)
        late.may_hear.set()
        other = await open_view(late)
        late.may_hear.clear()
        late.asked.clear()
        await view.create_topic(spec(view))
        seen: list[bool] = []

        def plan(image: ClusterImage) -> list[ConditionalWrite]:
            seen.append("t" in image.topics)
            return []

        async def tell_later() -> None:
            await late.asked.wait()
            late.may_hear.set()

        await asyncio.gather(other.submit(plan), tell_later())

        assert seen == [False, True]
        await other.close()

    tell(open_store, story)


def test_all_brokers_agree_on_the_name_of_the_cluster(open_store: OpenStore) -> None:
    async def run() -> None:
        store = await open_store()
        views = [ClusterMetadata(store, SystemEntropy()) for _ in range(3)]
        await asyncio.gather(*(view.start(keep) for view in views))

        assert len({view.cluster_id for view in views}) == 1
        assert len(views[0].cluster_id) == 22
        for view in views:
            await view.close()
        await store.close()

    asyncio.run(run())


def test_a_view_that_fell_behind_what_the_store_remembers_reads_everything_again() -> None:
    async def run() -> None:
        store = MemoryStore()
        view = await open_view(store)
        membership = await join(view)
        await view.create_topic(spec(view, "old"))
        heard: list[Change] = []
        view.on_change(heard.extend, renewed=lambda: None)
        await view.close()
        busy = await open_view(store)
        await busy.delete_topic("old")
        await busy.create_topic(spec(busy, "new", partitions=3))
        store.compact()
        view._watching = keep("metadata watch", view._watch)
        await view.wait_until(lambda image: "new" in image.topics, 5)

        assert set(view.image.topics) == {"new"}
        assert [type(change) for change in heard] == [TopicDeleted, TopicCreated]
        await membership.leave()
        for each in (view, busy):
            await each.close()
        await store.close()

    asyncio.run(run())


def test_what_a_dead_creator_left_is_collected() -> None:
    async def run() -> None:
        store = MemoryStore()
        view = await open_view(store)
        membership = await join(view)
        await view.create_topic(spec(view, partitions=2))
        topic_id = view.image.topics["t"].topic_id
        leftover = (await store.list("partitions/")).items[0]
        await view.delete_topic("t")
        await store.transact([], [Put(leftover.key, leftover.value)])
        await view.wait_until(lambda image: image.garbage() == [topic_id], 5)

        assert await view.commit(clean_up(view.image, topic_id))
        assert (await store.list("partitions/")).items == ()
        await membership.leave()
        await view.close()
        await store.close()

    asyncio.run(run())


def test_a_broker_that_starts_again_gets_a_new_epoch_and_finds_its_topics(tmp_path: Path) -> None:
    async def life() -> tuple[int, int]:
        store = await SqliteStore.open(tmp_path / "m.db")
        view = await open_view(store)
        membership = await join(view)
        if "t" not in view.image.topics:
            await view.create_topic(spec(view, partitions=7))
        answer = membership.epoch, view.image.topics["t"].partition_count
        # The process dies: nobody says goodbye.
        await membership._renewing.close()  # type: ignore[union-attr]
        await view.close()
        await store.close()
        return answer

    first, second = asyncio.run(life()), asyncio.run(life())

    assert first[1] == second[1] == 7
    assert second[0] > first[0]
