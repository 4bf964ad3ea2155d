"""This gateway among others: its lease, who else is there, and which things are its own.

A gateway says every second that it is there.  Its own claims hold for LEASE_S from the moment at which it began to say so the
last time that was acknowledged; others take a gateway for dead LEASE_S + GRACE_S after they last heard of it.  Clocks need not
agree, only run at about the same rate: whoever is taken over from has stopped before.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headrace.client.errors import HeadraceError
from headrace.gateway.fleet.journal import Journal
from headrace.gateway.fleet.state import State
from headrace.gateway.serving.problems import Problem

if TYPE_CHECKING:
    from headrace.gateway.callers.caller import Caller
    from headrace.gateway.serving.tasks import Tasks
    from headrace.gateway.webhooks.sealing import Seal

logger = logging.getLogger(__name__)

LEASE_S: Final = 5.0
GRACE_S: Final = 1.0
BEAT_S: Final = 1.0
TIDY_EVERY: Final = 30
AGAIN_S: Final = 0.2
AGAIN_S_MAX: Final = 10.0


class Fleet:
    """`id` is of this process: a gateway that starts again is another one."""

    def __init__(self, name: str, caller: Caller, tasks: Tasks, url: Callable[[], str], seal: Seal) -> None:
        self.id = f"{name}-{secrets.token_hex(4)}"
        self.changed = asyncio.Event()
        self._caller = caller
        self._tasks = tasks
        self._url = url
        self._key_id = seal.key_id
        self.journal = Journal(caller, self.changed.set, seal.mark)
        self._beaten_until = 0.0
        self._heard: dict[str, tuple[Any, float]] = {}  # what a gateway said last, and when we heard it
        self.failure: str | None = "it has not read its log yet"

    def start(self) -> None:
        self._tasks.keep(self._read, "read the log of gateways")
        self._tasks.keep(self._beat, "say that this gateway is there")

    async def stop(self) -> None:
        """Say good-bye, so that others need not wait."""
        if self._beaten_until:
            self._beaten_until = 0.0
            try:
                async with asyncio.timeout(2):
                    await self.journal.beat(self.id, None)
            except (HeadraceError, TimeoutError):
                pass

    @property
    def holds_lease(self) -> bool:
        """Whether what is claimed is still ours.  Asked right before each act."""
        return time.monotonic() < self._beaten_until

    @property
    def is_ready(self) -> bool:
        return self.journal.applied >= 0

    def require(self) -> None:
        """Raises a Problem while the log of gateways cannot be used."""
        if not self.is_ready:
            raise Problem(
                503,
                "gateways_not_coordinated",
                f"This gateway cannot use the topic in which gateways keep subscriptions: {self.failure}.",
                "Give the gateway a --profile that may create, read and write it.",
                headers={"Retry-After": "1"},
            )

    async def synced(self) -> State:
        """The state with all that was acknowledged before."""
        self.require()
        try:
            return await self.journal.sync()
        except TimeoutError:
            raise Problem(503, "gateways_not_coordinated", "The log of gateways does not move.", "Try again.") from None

    async def _read(self) -> None:
        pause = AGAIN_S
        while True:
            try:
                await self._caller.let_in()
                await self.journal.run()
            except HeadraceError as error:
                if self.failure != str(error):
                    advice = "`headrace gateway --profile NAME` has credentials of its own"
                    logger.warning("webhooks rest, and other gateways are not known: %s (%s)", error, advice)
                self.failure = str(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, AGAIN_S_MAX)

    async def _beat(self) -> None:
        count = 0
        while True:
            if self.is_ready:
                began = time.monotonic()
                count += 1
                async with asyncio.timeout(LEASE_S):
                    await self.journal.beat(self.id, {"url": self._url(), "beat": count, "key": self._key_id})
                self._beaten_until = began + LEASE_S
                self.changed.set()
                if count % TIDY_EVERY == 0:
                    await self.journal.tidy()
            await asyncio.sleep(BEAT_S)

    # Others

    def living(self) -> dict[str, str]:
        """The gateways that are there, with their addresses; this one among them."""
        now = time.monotonic()
        found = {self.id: self._url()}
        for name, said in self.journal.state.gateways.items():
            heard = self._heard.get(name)
            if heard is None or heard[0] != said:
                self._heard[name] = heard = (said, now)
            if name != self.id and now - heard[1] <= LEASE_S + GRACE_S:
                found[name] = said["url"]
        self._heard = {name: heard for name, heard in self._heard.items() if name in self.journal.state.gateways}
        return found

    def holds(self, name: str) -> bool:
        """Whether this is ours, and still is.  Asked right before each act."""
        return self.holds_lease and self.journal.state.owner_of(name) == self.id

    async def claim(self, name: str, *, is_sealed: bool = False) -> bool:
        """Make something ours that nobody living has; whether it is now.  Of several that want it, the one whose number for it is
        lowest goes first, and the log decides.  Who has not our key does not want what is sealed with it."""
        living = self.living()
        owner = self.journal.state.owner_of(name)
        if owner == self.id:
            return True
        able = [each for each in living if not is_sealed or each == self.id or self._has_our_key(each)]
        if owner in living or min(able, key=lambda each: _number(each, name)) != self.id:
            return False
        return await self._set_owner(name, self.id)

    async def let_go(self, name: str) -> None:
        """Leave something to others."""
        if self.holds(name):
            await self._set_owner(name, None)

    def _has_our_key(self, gateway: str) -> bool:
        said = self.journal.state.gateways.get(gateway, {})
        return self._key_id is not None and said.get("key") == self._key_id

    async def _set_owner(self, name: str, owner: str | None) -> bool:
        claim = self.journal.state.claims.get(name)
        return await self.journal.change("claim", name, 0 if claim is None else claim.version, {"owner": owner})


def _number(gateway: str, name: str) -> bytes:
    return hashlib.blake2b(f"{gateway}\0{name}".encode(), digest_size=8).digest()
