"""A broker's lease: kept while the store answers, given up in time when it does not."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.controller.entries import BrokerRegistration, Condition, Endpoint, Operation, Put
from headrace.host.entropy import SystemEntropy
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.membership import BrokerMembership, NodeIdTaken
from headrace.metadata.memory import MemoryStore
from headrace.metadata.store import StoreUnavailable, TransactionResult
from headrace.testing.tasks import keep
from tests.support.waiting import stays_async, until, until_async

TTL_S = 0.4


class CutStore(MemoryStore):
    """One broker's way to a store, which can be cut."""

    def __init__(self, whole: MemoryStore) -> None:
        self.__dict__.update(whole.__dict__)
        self.whole = whole
        self.is_cut = False

    def _check_open(self) -> None:
        if self.is_cut:
            raise StoreUnavailable("cut off")

    async def keep_alive(self, lease: int) -> float:
        self._check_open()
        return await self.whole.keep_alive(lease)

    async def grant_lease(self, ttl_s: float) -> int:
        self._check_open()
        return await self.whole.grant_lease(ttl_s)

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        self._check_open()
        return await self.whole.transact(conditions, operations)

    async def revoke(self, lease: int) -> None:
        self._check_open()
        await self.whole.revoke(lease)


async def member(
    store: MemoryStore, broker_id: int, lost: list[float], regained: list[bool] | None = None
) -> tuple[ClusterMetadata, BrokerMembership]:
    view = ClusterMetadata(store, SystemEntropy())
    await view.start(keep)
    loop = asyncio.get_running_loop()
    membership = BrokerMembership(
        view,
        BrokerRegistration(broker_id=broker_id),
        on_lost=lambda: lost.append(loop.time()),
        on_regained=lambda: (regained if regained is not None else []).append(membership.is_valid),
        lease_ttl_s=TTL_S,
    )
    await membership.join(keep)
    return view, membership


class GreedyStore(MemoryStore):
    """Takes the first lease back as soon as something was written under it."""

    created_at = 0

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        result = await super().transact(conditions, operations)
        leases = [operation.lease for operation in operations if isinstance(operation, Put) and operation.lease]
        if leases and not self.created_at:
            self.created_at = result.revision
            await self.revoke(leases[0])
        return result


def test_a_broker_whose_lease_is_lost_at_once_knows_in_which_epoch_it_registered() -> None:
    async def run() -> None:
        store = GreedyStore()
        view, membership = await member(store, 1, [])

        assert 1 not in view.image.brokers
        assert membership.epoch == store.created_at
        await membership.leave()
        await view.close()

    asyncio.run(run())


def test_a_lease_is_kept_as_long_as_the_store_answers() -> None:
    async def run() -> None:
        store, lost = MemoryStore(), list[float]()
        view, membership = await member(store, 1, lost)

        await stays_async(lambda: membership.is_valid and 1 in view.image.brokers and not lost, 3 * TTL_S)
        await membership.leave()
        await view.wait_until(lambda image: 1 not in image.brokers, 5)
        await view.close()

    asyncio.run(run())


def test_a_broker_that_is_alone_keeps_its_place_however_long_its_process_stood_still() -> None:
    async def run() -> None:
        store, lost = MemoryStore(alone=True), list[float]()
        view, membership = await member(store, 1, lost)
        awake_at = asyncio.get_running_loop().time() + 3 * TTL_S

        until(lambda: asyncio.get_running_loop().time() > awake_at, "time passes while nothing runs")

        await stays_async(lambda: membership.is_valid and 1 in view.image.brokers and not lost, TTL_S / 3)
        await membership.leave()
        await view.wait_until(lambda image: 1 not in image.brokers, 5)
        await view.close()

    asyncio.run(run())


def test_a_broker_that_is_cut_off_fences_itself_before_the_others_see_it_go() -> None:
    async def run() -> None:
        whole, lost, gone, regained = MemoryStore(), list[float](), list[float](), list[bool]()
        cut = CutStore(whole)
        own_view, membership = await member(cut, 1, lost, regained)
        others_view, other = await member(whole, 2, [])
        loop = asyncio.get_running_loop()
        others_view.on_change(
            lambda changes: gone.append(loop.time()) if 1 not in others_view.image.brokers and not gone else None,
            renewed=lambda: None,
        )
        first_epoch = membership.epoch
        cut.is_cut = True
        await others_view.wait_until(lambda image: 1 not in image.brokers, 5)

        assert len(lost) == 1
        assert lost[0] < gone[0]
        assert not membership.is_valid
        cut.is_cut = False
        await others_view.wait_until(lambda image: 1 in image.brokers, 5)
        await until_async(lambda: regained)
        assert regained == [True]
        assert membership.epoch > first_epoch
        for each in (membership, other):
            await each.leave()
        for view in (own_view, others_view):
            await view.close()

    asyncio.run(run())


def test_a_broker_whose_lease_did_not_end_after_all_goes_on_in_the_same_life() -> None:
    async def run() -> None:
        whole, lost, regained = MemoryStore(), list[float](), list[bool]()
        cut = CutStore(whole)
        view, membership = await member(cut, 1, lost, regained)
        epoch, lease = membership.epoch, membership.lease
        cut.is_cut = True

        async def has_come(news: list[Any]) -> list[Any]:
            # The store counts anew, as etcd does when its leader changes, and does not let the lease end.
            await whole.keep_alive(lease)
            return news

        await until_async(lambda: has_come(lost))
        cut.is_cut = False
        await until_async(lambda: has_come(regained))

        assert regained == [True]
        assert (membership.epoch, membership.lease) == (epoch, lease)
        await membership.leave()
        await view.close()

    asyncio.run(run())


def test_an_answer_that_nobody_understands_does_not_end_the_renewals() -> None:
    async def run() -> None:
        whole, lost = MemoryStore(), list[float]()
        cut = CutStore(whole)
        view, membership = await member(cut, 1, lost)
        answers = iter([ValueError("what?"), OSError("hm")])
        sound = cut.keep_alive

        async def confused(lease: int) -> float:
            if (error := next(answers, None)) is not None:
                raise error
            return await sound(lease)

        cut.keep_alive = confused  # type: ignore[method-assign]

        await stays_async(lambda: membership.is_valid, 3 * TTL_S)
        await membership.leave()
        await view.close()

    asyncio.run(run())


def test_a_second_process_with_the_same_id_waits_until_the_first_is_gone() -> None:
    async def run() -> None:
        store = MemoryStore()
        view, first = await member(store, 1, [])
        other_view = ClusterMetadata(store, SystemEntropy())
        await other_view.start(keep)
        second = BrokerMembership(other_view, BrokerRegistration(broker_id=1), on_lost=lambda: None, lease_ttl_s=TTL_S)
        joining = asyncio.ensure_future(second.join(keep))

        await stays_async(lambda: not joining.done(), 2 * TTL_S)
        await first.leave()
        await asyncio.wait_for(joining, 5)
        assert second.epoch > first.epoch
        await second.leave()
        for each in (view, other_view):
            await each.close()

    asyncio.run(run())


def test_others_learn_what_a_broker_says_of_itself() -> None:
    async def run() -> None:
        store = MemoryStore()
        view, membership = await member(store, 1, [])
        await membership.update(shutting_down=True)

        assert view.image.brokers[1].shutting_down
        assert view.image.brokers[1].epoch == membership.epoch
        await membership.leave()
        await view.close()

    asyncio.run(run())


def test_a_broker_whose_id_is_taken_is_told_by_whom(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        store = MemoryStore()
        view, first = await member(store, 1, [])
        await first.update(endpoints={"CLIENTS": Endpoint(host="other.example", port=9092)})
        second = BrokerMembership(view, BrokerRegistration(broker_id=1), on_lost=lambda: None, lease_ttl_s=TTL_S)

        with pytest.raises(NodeIdTaken, match=r"another broker has node.id 1 already, at other.example:9092"):
            await second.join(keep, timeout_s=0.6)
        await first.leave()
        await view.close()

    asyncio.run(run())
    # Long before it gives up, and once.
    (line,) = [record.message for record in caplog.records if "still registered" in record.message]
    assert line == "broker 1 is still registered, at other.example:9092; waiting for that lease to end, at most 1 s"
