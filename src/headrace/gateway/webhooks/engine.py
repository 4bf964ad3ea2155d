"""All subscriptions that are this gateway's: claims those that nobody living has, and stops those that are not its own."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.gateway.fleet.forwarding import taken_over
from headrace.gateway.metrics import Figures
from headrace.gateway.serving.tasks import Tasks
from headrace.gateway.webhooks.delivery import Courier, Delivery, Ended
from headrace.gateway.webhooks.patience import Breaker
from headrace.gateway.webhooks.queue_delivery import QueueCourier
from headrace.gateway.webhooks.subscription import SECRET_OVERLAP_S, Subscription, readable

if TYPE_CHECKING:
    from headrace.gateway.callers.callers import Callers
    from headrace.gateway.fleet.fleet import Fleet
    from headrace.gateway.webhooks.posting import Poster
    from headrace.gateway.webhooks.sealing import Seal

logger = logging.getLogger(__name__)

PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 30.0
LOOK_S: Final = 1.0


@dataclass(slots=True)
class Running:
    """A subscription that is delivered here."""

    version: int
    task: asyncio.Task[Any]
    courier: Courier | None = None
    failure: str | None = None


class Engine:
    """Looks at the state of the fleet whenever it changes."""

    def __init__(
        self, fleet: Fleet, callers: Callers, poster: Poster, seal: Seal, age_s: float, figures: Figures | None = None
    ) -> None:
        self._figures = figures or Figures()
        self._fleet = fleet
        self._callers = callers
        self._poster = poster
        self._seal = seal
        self._age_s = age_s
        self._tasks = Tasks()
        self.delivering: dict[str, Running] = {}
        self._breakers: dict[str, Breaker] = {}
        self._read: dict[str, tuple[int, Subscription | None]] = {}  # by name and version; None is one that is passed over

    async def run(self) -> None:
        while True:
            await self._look()
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._fleet.changed.wait()
            except TimeoutError:
                pass
            self._fleet.changed.clear()

    async def close(self) -> None:
        await self._tasks.close()
        self.delivering.clear()

    async def _look(self) -> None:
        if not self._fleet.is_ready or not self._fleet.holds_lease:
            await self._stop_all_but({})
            return
        mine = {found.id: found for found in await self._wanted() if await self._claim(found)}
        await self._stop_all_but(mine)
        for name, found in mine.items():
            if name not in self.delivering:
                task = self._tasks.spawn(self._keep_delivering(found), f"deliver subscription {name}")
                self.delivering[name] = Running(found.version, task)

    async def _claim(self, found: Subscription) -> bool:
        is_sealed = any("sealed" in found.document[part] for part in ("credentials", "secrets"))
        return await self._fleet.claim(found.id, is_sealed=is_sealed)

    async def _wanted(self) -> list[Subscription]:
        """The active ones that can be delivered from here; one that cannot is left to others, and stops none beside it."""
        kept = list(self._fleet.journal.state.documents())
        before, self._read = self._read, {}
        for name, version, document in kept:
            known = before.get(name)
            self._read[name] = known if known and known[0] == version else (version, self._usable(name, version, document))
            if self._read[name][1] is None:
                await self._fleet.let_go(name)
        return [found for _, found in self._read.values() if found is not None and found.status == "active"]

    def _usable(self, name: str, version: int, document: dict[str, Any]) -> Subscription | None:
        found = readable(name, version, document)
        if found is None:
            logger.warning("subscription %s is passed over: what is kept of it cannot be read", name)
            return None
        try:
            self._seal.open(document["credentials"])
            self.good_secrets(found)
        except Exception as error:
            logger.warning("subscription %s is left to other gateways: %s", name, error)
            return None
        return found

    async def _stop_all_but(self, mine: dict[str, Subscription]) -> None:
        over = [name for name, each in self.delivering.items() if name not in mine or mine[name].version != each.version]
        for name in over:
            task = self.delivering.pop(name).task
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep_delivering(self, subscription: Subscription) -> None:
        pause = PAUSE_S
        while True:
            age = asyncio.timeout(self._age_s)
            try:
                async with age:
                    await self._deliver(subscription)
                pause = PAUSE_S
            except Ended:
                await self._set_status(subscription, "gone")
                return
            except Exception as error:
                if age.expired():  # its principal signs in again
                    pause = PAUSE_S
                    continue
                logger.warning("subscription %s rests for %.0f s: %s", subscription.id, pause, error)
                if subscription.id in self.delivering:
                    self.delivering[subscription.id].failure = str(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_S_MAX)

    async def _deliver(self, subscription: Subscription) -> None:
        credentials = self._callers.doorkeeper.kept(self._seal.open(subscription.document["credentials"]))
        async with self._callers.borrow(credentials) as caller:
            breaker = self._breakers.setdefault(subscription.wanted.callback_url, Breaker())
            kind = Courier if subscription.wanted.ordered else QueueCourier
            courier = kind(
                subscription,
                self.good_secrets(subscription),
                caller,
                self._poster,
                breaker,
                lambda: self._fleet.holds(subscription.id),
                self._figures,
            )
            running = self.delivering.get(subscription.id)
            if running is not None:
                if running.courier is not None:
                    courier.deliveries.extend(running.courier.deliveries)
                    courier.tried |= running.courier.tried
                running.courier, running.failure = courier, None
            await courier.run()

    def good_secrets(self, subscription: Subscription) -> list[str]:
        """The newest first; an older one for a day after it was replaced."""
        kept = self._seal.open(subscription.document["secrets"])
        now = time.time()
        return [each["secret"] for each in kept if each["until"] is None or now < each["until"]]

    async def _set_status(self, subscription: Subscription, status: str) -> None:
        document = {**subscription.document, "status": status}
        await self._fleet.journal.change("thing", subscription.id, subscription.version, document)

    def deliveries(self, name: str) -> tuple[list[Delivery], str | None]:
        """What was tried lately, the last one first, and why nothing is just now."""
        running = self.delivering.get(name)
        if running is None:
            raise taken_over()
        return list(reversed(running.courier.deliveries)) if running.courier else [], running.failure


def rotated(kept: list[dict[str, Any]], secret: str, now: float) -> list[dict[str, Any]]:
    """With a new secret in front; the one before stays good for a while."""
    older = [{**each, "until": each["until"] or now + SECRET_OVERLAP_S} for each in kept]
    return [{"secret": secret, "until": None}, *(each for each in older if each["until"] > now)]
