"""A metadata store that all simulated brokers share, and each broker's connection to it.

The store itself never forgets what it has taken: that is etcd's business, not ours.  Between it and a broker requests and answers
are late or lost, leases end, now and then unfairly, and watches lag.  As the interface promises, a transaction whose answer was
lost is settled before the caller hears of it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from headrace.controller.entries import Condition, KeyValue, Operation
from headrace.metadata.ledger import Change, Ledger
from headrace.metadata.memory import check_leases
from headrace.metadata.store import OPERATIONS_MAX, LeaseLost, Listing, StoreUnavailable, TransactionResult, WatchBatch
from simulation.rules.tally import Fault
from simulation.world.loop import SimulatedLoop
from simulation.world.machine import Machine, required_machine
from simulation.world.network import SimulatedNetwork

NAME = "store"
WATCH_LAG_S = (0.0, 0.02)
CALL_TIMEOUT_S = 2.0
SETTLE_PAUSE_S = 0.2


class StoreServer:
    """The store: keys, leases and who watches.  Everything here happens outside of all machines, in an instant."""

    def __init__(self, network: SimulatedNetwork, *, watch_lag_s: tuple[float, float] = WATCH_LAG_S) -> None:
        self.network = network
        self.loop: SimulatedLoop = network.loop
        self.ledger = Ledger()
        self.watch_lag_s = watch_lag_s
        self.is_down = False
        self.leases: dict[int, tuple[float, asyncio.TimerHandle]] = {}
        self._last_lease = 0
        self._connections = 0
        self._results: dict[tuple[int, int], TransactionResult | Exception] = {}
        self._watches: dict[Watch, None] = {}

    def connect(self, machine: Machine) -> "SimulatedStore":
        self._connections += 1
        return SimulatedStore(self, machine, self._connections)

    # -- requests

    def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        if not all(self.ledger.holds(condition) for condition in conditions):
            return TransactionResult(False, self.ledger.revision)
        check_leases(operations, self.leases)
        self._apply(self.ledger.plan(operations))
        return TransactionResult(True, self.ledger.revision)

    def transact_once(
        self, token: tuple[int, int], conditions: Sequence[Condition], operations: Sequence[Operation]
    ) -> TransactionResult:
        """Remember what became of it, for a caller who never hears; refuse it when the caller has given it up."""
        if token not in self._results:
            try:
                self._results[token] = self.transact(conditions, operations)
            except LeaseLost as error:
                self._results[token] = error
        return self.settle(token)

    def settle(self, token: tuple[int, int]) -> TransactionResult:
        """What became of a transaction.  One that has not come by now never happens."""
        result = self._results.setdefault(token, StoreUnavailable("the request was lost"))
        if isinstance(result, Exception):
            raise result
        return result

    def grant_lease(self, ttl_s: float) -> int:
        self._last_lease += 1
        self._schedule(self._last_lease, ttl_s)
        return self._last_lease

    def keep_alive(self, lease: int) -> float:
        if lease not in self.leases:
            raise LeaseLost(f"lease {lease} has ended")
        ttl_s, timer = self.leases[lease]
        timer.cancel()
        self._schedule(lease, ttl_s)
        return ttl_s

    def end_lease(self, lease: int) -> None:
        """The lease is over: revoked, run out, or lost unfairly."""
        held = self.leases.pop(lease, None)
        if held is not None:
            held[1].cancel()
            self._apply(self.ledger.plan_end_of_lease(lease))

    def _schedule(self, lease: int, ttl_s: float) -> None:
        self.leases[lease] = (ttl_s, self.loop.call_on(None, ttl_s, self._expire, lease))

    def _expire(self, lease: int) -> None:
        self.loop.tally[Fault.EXPIRED_LEASE] += 1
        self.end_lease(lease)

    def _apply(self, change: Change) -> None:
        if change.events:
            self.ledger.apply(change)
            for watch in self._watches:
                watch.pump_later(self.loop.random.uniform(*self.watch_lag_s))

    # -- watches

    def add_watch(self, watch: "Watch") -> None:
        self._watches[watch] = None

    def remove_watch(self, watch: "Watch") -> None:
        self._watches.pop(watch, None)

    def reachable(self, machine: Machine) -> bool:
        return not self.is_down and self.network.passes(machine.name, NAME)

    def reaches(self, machine: Machine) -> bool:
        return not self.is_down and self.network.passes(NAME, machine.name)

    def on_healed(self) -> None:
        """Links or the store itself came back: watches that were stuck go on."""
        for watch in self._watches:
            watch.pump_later(self.network.delay())


class SimulatedStore:
    """One broker's connection.  Satisfies MetadataStore."""

    operations_max = OPERATIONS_MAX

    def __init__(self, server: StoreServer, machine: Machine, number: int) -> None:
        self._server = server
        self._number = number
        self._machine = machine
        self._transactions = 0
        self._watches: list[Watch] = []
        self._closed = False

    async def get(self, key: str) -> KeyValue | None:
        return await self._ask(self._server.ledger.get, key)  # type: ignore[no-any-return]

    async def list(self, prefix: str) -> Listing:
        return await self._ask(self._server.ledger.list, prefix)  # type: ignore[no-any-return]

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        assert len(operations) <= self.operations_max, f"{len(operations)} operations in one transaction"
        self._transactions += 1
        token = (self._number, self._transactions)
        try:
            return await self._ask(self._server.transact_once, token, conditions, operations)  # type: ignore[no-any-return]
        except StoreUnavailable:
            return await self._settle(token)

    async def _settle(self, token: tuple[int, int]) -> TransactionResult:
        while not self._closed:
            answer = self._send(self._server.settle, (token,))
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    return await answer  # type: ignore[no-any-return]
            except TimeoutError:
                await asyncio.sleep(SETTLE_PAUSE_S)
        raise StoreUnavailable("the store is closed")

    async def grant_lease(self, ttl_s: float) -> int:
        return await self._ask(self._server.grant_lease, ttl_s)  # type: ignore[no-any-return]

    async def keep_alive(self, lease: int) -> float:
        return await self._ask(self._server.keep_alive, lease)  # type: ignore[no-any-return]

    async def revoke(self, lease: int) -> None:
        await self._ask(self._server.end_lease, lease)

    def watch(self, prefix: str, start_revision: int) -> AsyncIterator[WatchBatch]:
        watch = Watch(self._server, self._machine, prefix, start_revision)
        self._watches.append(watch)
        return watch

    async def close(self) -> None:
        self._closed = True
        for watch in self._watches:
            watch.close()

    # -- to the store and back

    async def _ask(self, operation: Callable[..., Any], *args: Any) -> Any:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        answer = self._send(operation, args)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise StoreUnavailable("the store does not answer") from None

    def _send(self, operation: Callable[..., Any], args: tuple[Any, ...]) -> "asyncio.Future[Any]":
        assert required_machine() is self._machine, "a connection belongs to one machine"
        server = self._server
        answer: asyncio.Future[Any] = server.loop.create_future()
        if server.reachable(self._machine):
            server.loop.call_on(None, server.network.delay(), self._arrive, operation, args, answer)
        elif not server.is_down:
            server.network.note_cut(self._machine.name, NAME)
        return answer

    def _arrive(self, operation: Callable[..., Any], args: tuple[Any, ...], answer: "asyncio.Future[Any]") -> None:
        """The request is at the store: carry it out, and send the answer back if it can go."""
        server = self._server
        if server.is_down:
            return
        outcome: Any = None
        failure: Exception | None = None
        try:
            outcome = operation(*args)
        except (LeaseLost, StoreUnavailable) as error:
            failure = error
        if server.reaches(self._machine):
            server.loop.call_on(self._machine, server.network.delay(), _answer, answer, outcome, failure)


def _answer(answer: "asyncio.Future[Any]", outcome: Any, failure: Exception | None) -> None:
    if answer.done():
        return
    if failure is not None:
        # A fresh one: the store keeps its own, and may raise it again.
        answer.set_exception(type(failure)(*failure.args))
    else:
        answer.set_result(outcome)


class Watch:
    """A watch of one broker: every change from a revision on, in order, each once, when the link lets it through."""

    def __init__(self, server: StoreServer, machine: Machine, prefix: str, start_revision: int) -> None:
        self._server = server
        self._machine = machine
        self._prefix = prefix
        self._sent_to = start_revision
        self._under_way: deque[WatchBatch | Exception] = deque()
        self._arrived: deque[WatchBatch | Exception] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False
        self._is_due = False
        self._last_arrival = 0.0
        server.add_watch(self)
        self.pump()

    def pump_later(self, lag_s: float) -> None:
        """Something new is there: send it after a while, with all that comes until then."""
        if not self._is_due:
            self._is_due = True
            self._server.loop.call_on(None, lag_s, self.pump)

    def pump(self) -> None:
        """At the store: send what the watch has not seen yet."""
        self._is_due = False
        server = self._server
        if self._machine.is_crashed or self._is_closed:
            server.remove_watch(self)
            return
        if not server.reaches(self._machine) or not server.reachable(self._machine):
            return
        try:
            changes = server.ledger.changes_from(self._sent_to)
        except Exception as error:
            server.remove_watch(self)
            self._send(error)
            return
        for change in changes:
            self._sent_to = change.revision + 1
            events = tuple(event for event in change.events if event.key.startswith(self._prefix))
            if events:
                self._send(WatchBatch(change.revision, events))

    def _send(self, what: WatchBatch | Exception) -> None:
        loop = self._server.loop
        self._last_arrival = max(loop.now + self._server.network.delay(), self._last_arrival)
        self._under_way.append(what)
        loop.call_on(self._machine, self._last_arrival - loop.now, self._arrive)

    def _arrive(self) -> None:
        self._arrived.append(self._under_way.popleft())
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        self._is_closed = True
        self._server.remove_watch(self)
        self._wake()

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> WatchBatch:
        while not self._arrived and not self._is_closed:
            self._waiter = self._server.loop.create_future()
            await self._waiter
        if not self._arrived:
            raise StopAsyncIteration
        what = self._arrived.popleft()
        if isinstance(what, Exception):
            raise what
        return what
