"""One principal at the brokers: the clients that act in its name, each made at its first use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from headrace.client.admin.acls import RuleAdmin
from headrace.client.admin.users import Users
from headrace.client.aio.admin import AsyncAdmin
from headrace.client.aio.producer import AsyncProducer
from headrace.gateway.brokers.cluster import Cluster
from headrace.gateway.callers.credentials import Credentials
from headrace.gateway.serving.tasks import Tasks

Result = TypeVar("Result")
ADMIN_SECONDS = 20.0
DELIVERY_SECONDS = 30.0


class Caller:
    """All that is done with it, is done as the caller and nobody else."""

    def __init__(self, credentials: Credentials, bootstrap: str, now: float) -> None:
        self.key = credentials.key
        self.name = credentials.name
        self.credentials = credentials
        self.bootstrap = bootstrap
        self.made_at = now
        self.used_at = now
        self.in_use = 0
        self._tasks = Tasks()
        self._cluster: Cluster | None = None
        self._admin: AsyncAdmin | None = None
        self._producer: AsyncProducer | None = None
        self._is_let_in = False
        self._signing_in = asyncio.Lock()

    @property
    def properties(self) -> dict[str, Any]:
        """librdkafka's."""
        return {**self.credentials.properties, "bootstrap.servers": self.bootstrap}

    @property
    def cluster(self) -> Cluster:
        """The brokers, asked over connections of our own."""
        if self._cluster is None:
            self._cluster = Cluster(self.bootstrap, self.credentials.properties, self._tasks)
        return self._cluster

    @property
    def admin(self) -> AsyncAdmin:
        if self._admin is None:
            self._admin = AsyncAdmin(
                self.bootstrap,
                timeout=ADMIN_SECONDS,
                connect_timeout=ADMIN_SECONDS,
                client_id="headrace-gateway",
                librdkafka=self.credentials.properties,
            )
        return self._admin

    @property
    def producer(self) -> AsyncProducer:
        if self._producer is None or self._producer._outbox.cannot_go_on:
            # What was fatal, such as to have no right to write, may be mended by now.
            self._producer = AsyncProducer(
                self.bootstrap,
                delivery_timeout=DELIVERY_SECONDS,
                linger=0.001,
                client_id="headrace-gateway",
                librdkafka=self.credentials.properties,
            )
        return self._producer

    async def let_in(self) -> None:
        """Return when a broker has let the caller in; SecurityFailed where it does not.  librdkafka, which would go on trying
        for long, is not asked before."""
        if self._is_let_in:
            return
        async with self._signing_in:
            if not self._is_let_in:
                await self.cluster.any_connection()
                self._is_let_in = True

    async def rules(self, use: Callable[[RuleAdmin], Result]) -> Result:
        """Something with the rules of who may do what."""
        return await asyncio.to_thread(lambda: use(RuleAdmin(self.properties)))

    async def users(self, use: Callable[[Users], Result]) -> Result:
        """Something with those who may sign in."""
        return await asyncio.to_thread(lambda: use(Users(self.properties)))

    async def close(self) -> None:
        await self._tasks.close()
        if self._cluster is not None:
            self._cluster.close()
        if self._producer is not None:
            producer = self._producer
            await asyncio.to_thread(producer._producer.close, 1.0)
        if self._admin is not None:
            await self._admin.close()
