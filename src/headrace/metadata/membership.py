"""A broker's place in the cluster: registered under a lease, kept alive, and given up in time when it cannot be kept.

Always: a broker that cannot renew its lease stops serving (`on_lost`) before the store can let the lease end, so that no other
broker acts on its death while it still believes to live.  The wait is measured from when the last successful renewal was *sent*.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from headrace.controller.entries import (
    BrokerRegistration,
    CompareCreated,
    Condition,
    Memory,
    Put,
    absent,
    broker_key,
    member_key,
)
from headrace.controller.fencing import may_act
from headrace.metadata.cluster import ClusterMetadata, Keep, Kept
from headrace.metadata.store import LeaseLost, StoreUnavailable, TransactionResult
from headrace.model.errors import RequestError

logger = logging.getLogger(__name__)

LEASE_TTL_S = 3.0  # etcd's floor is about 2 s; a dead leader is missed after this
RENEWALS_PER_TTL = 4
FENCE_AFTER = 0.8  # of the lease's time: what is left covers a late timer and the clocks' drift
REGISTER_RETRY_S = 0.2
LEAVE_TIMEOUT_S = 2.0


class NodeIdTaken(Exception):
    """Another broker is registered with this one's id."""


class BrokerMembership:
    """Register with `await join()`; leave with `await leave()`.

    `on_lost` is called once for each lease lost, `on_regained` when the next one holds."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        registration: BrokerRegistration,
        *,
        on_lost: Callable[[], None],
        on_regained: Callable[[], None] = lambda: None,
        lease_ttl_s: float = LEASE_TTL_S,
    ) -> None:
        self._metadata = metadata
        self._store = metadata.store
        self.registration = registration
        self._on_lost = on_lost
        self._on_regained = on_regained
        self._lease_ttl_s = lease_ttl_s
        self.lease = 0
        self._renewed_at = 0.0
        self._granted_s = lease_ttl_s
        self._renewing: Kept | None = None
        self._has_met_holder = False

    @property
    def epoch(self) -> int:
        return self.registration.epoch

    @property
    def is_valid(self) -> bool:
        """Whether others still have to take this broker for alive.  Checked by whoever is about to acknowledge as leader."""
        now = asyncio.get_running_loop().time()
        return self.lease != 0 and may_act(now, self._renewed_at, self._granted_s, FENCE_AFTER)

    @property
    def lease_left_s(self) -> float:
        """For how long others take this broker for alive, should it not be heard of again; 0 without a lease."""
        if not self.lease:
            return 0.0
        return max(0.0, self._renewed_at + self._granted_s - asyncio.get_running_loop().time())

    async def join(self, keep: Keep, timeout_s: float = 30.0) -> BrokerRegistration:
        """Register, waiting for the lease of an earlier self to end.  Returns when this broker's own image shows it."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._register(f"at most {timeout_s:.0f} s")
        except TimeoutError:
            raise self._why_not_registered(timeout_s) from None
        self._renewing = keep("lease renewal", self._renew_for_ever)
        return self.registration

    def _why_not_registered(self, timeout_s: float) -> Exception:
        broker_id = self.registration.broker_id
        holder = self._metadata.image.brokers.get(broker_id)
        if holder is None:
            return StoreUnavailable(f"this broker could not be registered within {timeout_s:.0f} s")
        return NodeIdTaken(
            f"another broker has node.id {broker_id} already, at {_addresses(holder)}; stop that one, or give this one another id"
        )

    async def update(self, **fields: object) -> None:
        """Change what the others know of this broker: shutting_down, degraded, endpoints."""
        self.registration = replace(self.registration, **fields)  # type: ignore[arg-type]
        # Without a lease it is written when the broker registers anew: a key put outside of any lease would never go away.
        if self.lease:
            await self._write([CompareCreated(broker_key(self.registration.broker_id), self.epoch)], self.lease)

    async def leave(self) -> None:
        """Let go of the lease at once, so that the others need not wait for it to end."""
        if self._renewing is not None:
            await self._renewing.close()
        is_worth_ending = self.is_valid
        lease, self.lease = self.lease, 0
        if is_worth_ending:
            try:
                async with asyncio.timeout(LEAVE_TIMEOUT_S):
                    await self._store.revoke(lease)
            except (StoreUnavailable, TimeoutError) as error:
                logger.warning("could not end the lease, the others will notice later: %s", error)

    async def _register(self, longest_wait: str) -> None:
        """`longest_wait` is in words for people."""
        broker_id = self.registration.broker_id
        while True:
            sent_at = asyncio.get_running_loop().time()
            lease = await self._store.grant_lease(self._lease_ttl_s)
            granted_s = await self._store.keep_alive(lease)
            written = await self._write([absent(broker_key(broker_id))], lease)
            if written.succeeded:
                break
            await self._take_over(lease, longest_wait)
        # The revision at which the key was made.  The image may show it gone by now, with a lease that was lost at once.
        self.registration = replace(self.registration, epoch=written.revision)
        self._renewed_at, self._granted_s, self.lease = sent_at, granted_s, lease

    async def _take_over(self, unused_lease: int, longest_wait: str) -> None:
        """Another process, or an earlier self, holds our id.  An earlier self is one that wrote the same incarnation."""
        await self._store.revoke(unused_lease)
        holder = self._metadata.image.brokers.get(self.registration.broker_id)
        if holder is not None and not self._has_met_holder:
            self._has_met_holder = True
            logger.warning(
                "broker %d is still registered, at %s; waiting for that lease to end, %s",
                holder.broker_id,
                _addresses(holder),
                longest_wait,
            )
        await asyncio.sleep(REGISTER_RETRY_S)

    async def _write(self, conditions: list[Condition], lease: int) -> TransactionResult:
        broker_id, value = self.registration.broker_id, self.registration.to_value()
        result = await self._store.transact(
            conditions, [Put(broker_key(broker_id), value, lease), Put(member_key(broker_id), value)]
        )
        if result.succeeded:
            await self._metadata.wait_until(lambda image: image.revision >= result.revision, self._lease_ttl_s)
        return result

    async def _renew_for_ever(self) -> None:
        while True:
            try:
                await self._renew_while_valid()
            except LeaseLost:
                logger.error("broker %d lost its lease", self.registration.broker_id)
            doubtful, self.lease = self.lease, 0
            # The process lives on, and with it everything it knew.
            self.registration = replace(self.registration, memory=Memory.ALL)
            self._on_lost()
            await self._regain(doubtful)
            # The controller may have been faster than the answer to us: whoever looked at this membership meanwhile looks again.
            self._on_regained()

    async def _renew_while_valid(self) -> None:
        """Renew at a steady pace; return when it did not work for so long that the lease may soon end."""
        loop = asyncio.get_running_loop()
        while True:
            deadline = self._renewed_at + self._granted_s * FENCE_AFTER
            # Never asleep past the moment at which this broker must stop.
            await asyncio.sleep(max(0.0, min(self._lease_ttl_s / RENEWALS_PER_TTL, deadline - loop.time())))
            sent_at = loop.time()
            if sent_at >= deadline:
                return
            try:
                async with asyncio.timeout_at(deadline):
                    self._granted_s = await self._store.keep_alive(self.lease)
                self._renewed_at = sent_at
            except TimeoutError:
                return
            except LeaseLost:
                raise
            except StoreUnavailable as error:
                logger.warning("could not renew the lease: %s", error)
            except Exception:
                # Whatever the store says to it, a broker goes on trying: one that stopped would be dead to the others for ever.
                logger.exception("could not renew the lease")

    async def _regain(self, doubtful: int) -> None:
        """Go on in the old life if the store never let its lease end: then nobody was told of a death.  Else begin a new one."""
        while True:
            try:
                sent_at = asyncio.get_running_loop().time()
                self._granted_s = await self._store.keep_alive(doubtful)
                self._renewed_at, self.lease = sent_at, doubtful
                logger.info("broker %d goes on: its lease had not ended", self.registration.broker_id)
                return
            except LeaseLost:
                if await self._registered_anew():
                    return
            except StoreUnavailable as error:
                logger.warning("could not renew the lease: %s", error)
            except Exception:
                logger.exception("could not renew the lease")
            await asyncio.sleep(REGISTER_RETRY_S)

    async def _registered_anew(self) -> bool:
        try:
            await self._register("however long that takes")
            return True
        except (StoreUnavailable, LeaseLost, RequestError) as error:
            logger.warning("could not register: %s", error)
        except Exception:
            logger.exception("could not register")
        return False


def _addresses(registration: BrokerRegistration) -> str:
    return ", ".join(f"{endpoint.host}:{endpoint.port}" for endpoint in registration.endpoints.values())
