"""What every metadata store promises.  Each test runs against memory, SQLite and a real etcd."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headrace.controller.entries import Compare, CompareCreated, Delete, DeletePrefix, Exists, Put, absent
from headrace.metadata.etcd_http import EtcdError
from headrace.metadata.store import LeaseLost, MetadataStore, WatchBatch

OpenStore = Callable[[], Awaitable[MetadataStore]]
Story = Callable[[MetadataStore], Awaitable[None]]


def tell(open_store: OpenStore, story: Story) -> None:
    async def run() -> None:
        store = await open_store()
        try:
            async with asyncio.timeout(20):
                await story(store)
        finally:
            await store.close()

    asyncio.run(run())


async def take(store: MetadataStore, prefix: str, start: int, count: int) -> list[WatchBatch]:
    """The first batches of a watch that hold events."""
    batches: list[WatchBatch] = []
    async for batch in store.watch(prefix, start):
        if batch.events:
            batches.append(batch)
        if sum(len(batch.events) for batch in batches) >= count:
            break
    return batches


def test_a_key_that_was_put_is_found_with_the_revision_of_its_transaction(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        result = await store.transact([], [Put("a", b"1")])
        item = await store.get("a")

        assert item is not None
        assert (item.key, item.value) == ("a", b"1")
        assert item.create_revision == item.mod_revision == result.revision
        assert await store.get("b") is None

    tell(open_store, story)


def test_a_key_written_again_keeps_its_create_revision(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        first = await store.transact([], [Put("a", b"1")])
        second = await store.transact([], [Put("a", b"2")])
        item = await store.get("a")

        assert item is not None
        assert (item.create_revision, item.mod_revision) == (first.revision, second.revision)
        assert second.revision > first.revision

    tell(open_store, story)


def test_a_transaction_whose_condition_fails_changes_nothing(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        await store.transact([absent("a")], [Put("a", b"1")])
        again = await store.transact([absent("a")], [Put("a", b"2"), Put("b", b"2")])
        item = await store.get("a")

        assert not again.succeeded
        assert item is not None
        assert item.value == b"1"
        assert await store.get("b") is None

    tell(open_store, story)


def test_no_store_takes_a_transaction_that_writes_a_key_twice(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        with pytest.raises((AssertionError, EtcdError)):
            await store.transact([], [Put("a", b"1"), Put("a", b"2")])

        assert await store.get("a") is None

    tell(open_store, story)


def test_a_compare_and_swap_succeeds_only_on_the_revision_it_read(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        read = (await store.transact([], [Put("a", b"1")])).revision
        won = await store.transact([Compare("a", read)], [Put("a", b"2")])
        lost = await store.transact([Compare("a", read)], [Put("a", b"3")])

        assert won.succeeded
        assert not lost.succeeded

    tell(open_store, story)


def test_a_fence_on_the_create_revision_holds_through_writes_and_breaks_with_a_new_life(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        epoch = (await store.transact([], [Put("brokers/1", b"1")])).revision
        await store.transact([], [Put("brokers/1", b"2")])
        same_life = await store.transact([CompareCreated("brokers/1", epoch)], [Put("x", b"1")])
        await store.transact([], [Delete("brokers/1")])
        await store.transact([], [Put("brokers/1", b"3")])
        next_life = await store.transact([CompareCreated("brokers/1", epoch)], [Put("x", b"2")])

        assert same_life.succeeded
        assert not next_life.succeeded

    tell(open_store, story)


def test_exists_holds_only_while_the_key_is_there(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        before = await store.transact([Exists("a")], [Put("b", b"1")])
        await store.transact([], [Put("a", b"1")])
        during = await store.transact([Exists("a")], [Put("b", b"1")])
        await store.transact([], [Delete("a")])
        after = await store.transact([Exists("a")], [Put("b", b"2")])

        assert [before.succeeded, during.succeeded, after.succeeded] == [False, True, False]

    tell(open_store, story)


def test_of_many_that_race_for_one_key_exactly_one_wins(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        results = await asyncio.gather(*(store.transact([absent("a")], [Put("a", b"%d" % n)]) for n in range(10)))

        assert sum(result.succeeded for result in results) == 1

    tell(open_store, story)


def test_a_listing_is_sorted_and_holds_only_its_prefix(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        await store.transact([], [Put("p/b", b"2"), Put("p/a", b"1"), Put("q", b"3"), Put("p", b"0")])
        listing = await store.list("p/")

        assert [(item.key, item.value) for item in listing.items] == [("p/a", b"1"), ("p/b", b"2")]

    tell(open_store, story)


def test_a_listing_of_thousands_is_whole(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        for start in range(0, 4_500, 100):
            await store.transact([], [Put(f"n/{number:05}", b"x" * 50) for number in range(start, start + 100)])
        listing = await store.list("n/")

        assert [item.key for item in listing.items] == [f"n/{number:05}" for number in range(4_500)]

    tell(open_store, story)


def test_a_prefix_is_removed_as_one_operation(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        for start in range(0, 200, 100):
            await store.transact([], [Put(f"p/{number}", b"") for number in range(start, start + 100)])
        await store.transact([], [Put("q", b"")])
        result = await store.transact([], [DeletePrefix("p/")])

        assert result.succeeded
        assert [item.key for item in (await store.list("")).items] == ["q"]

    tell(open_store, story)


def test_a_watch_delivers_every_event_from_its_start_on_in_order(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        start = (await store.transact([], [Put("other", b"")])).revision + 1
        await store.transact([], [Put("w/a", b"1")])
        watching = asyncio.ensure_future(take(store, "w/", start, 4))
        await asyncio.sleep(0)
        await store.transact([], [Put("w/b", b"2"), Put("elsewhere", b"")])
        await store.transact([], [Put("w/a", b"3")])
        await store.transact([], [Delete("w/b")])
        events = [event for batch in await watching for event in batch.events]

        assert [(event.key, event.item.value if event.item else None) for event in events] == [
            ("w/a", b"1"),
            ("w/b", b"2"),
            ("w/a", b"3"),
            ("w/b", None),
        ]
        assert [event.revision for event in events] == sorted({event.revision for event in events})

    tell(open_store, story)


def test_the_events_of_one_transaction_arrive_together_in_its_order(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        start = (await store.list("")).revision + 1
        await store.transact([], [Put("w/2", b""), Put("w/1", b""), Put("w/3", b"")])
        (batch,) = await take(store, "w/", start, 3)

        assert [event.key for event in batch.events] == ["w/2", "w/1", "w/3"]

    tell(open_store, story)


def test_the_revision_of_a_transaction_that_changed_nothing_is_reached_by_a_watch(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        before = (await store.transact([], [Put("a", b"")])).revision
        result = await store.transact([], [Delete("no such key")])
        async for batch in store.watch("", before):
            if batch.revision >= result.revision:
                break

        assert result.succeeded

    tell(open_store, story)


def test_a_key_under_a_lease_goes_with_it_and_watches_see_that(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        lease = await store.grant_lease(60)
        start = (await store.transact([], [Put("leased", b"", lease), Put("free", b"")])).revision
        await store.revoke(lease)
        events = [event for batch in await take(store, "", start, 3) for event in batch.events]

        assert await store.get("leased") is None
        assert await store.get("free") is not None
        assert (events[-1].key, events[-1].item) == ("leased", None)

    tell(open_store, story)


def test_a_lease_that_has_ended_cannot_be_kept_alive_or_written_under(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        lease = await store.grant_lease(60)
        assert await store.keep_alive(lease) > 0
        await store.revoke(lease)

        with pytest.raises(LeaseLost):
            await store.keep_alive(lease)
        with pytest.raises(LeaseLost):
            await store.transact([], [Put("a", b"", lease)])
        assert await store.get("a") is None

    tell(open_store, story)


def test_keys_written_without_the_lease_survive_it(open_store: OpenStore) -> None:
    async def story(store: MetadataStore) -> None:
        lease = await store.grant_lease(60)
        await store.transact([], [Put("a", b"1", lease)])
        await store.transact([], [Put("a", b"2")])
        await store.revoke(lease)
        item = await store.get("a")

        assert item is not None
        assert item.value == b"2"

    tell(open_store, story)
