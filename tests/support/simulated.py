"""Short stories of a simulated cluster: a client beside brokers that serve, and what it does there."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from simulation.clients.client import ClusterClient, Unavailable
from simulation.rules.history import History
from simulation.world.cluster import SimulatedCluster
from simulation.world.loop import SimulatedLoop
from simulation.world.machine import Machine

TOPIC = "events"

Story = Callable[[SimulatedCluster, ClusterClient], Coroutine[Any, Any, None]]


def tell(story: Story, *, has_racks: bool = False) -> None:
    """Run a story on a client's machine beside a cluster of three."""
    loop = SimulatedLoop(1)

    async def scene() -> None:
        cluster = SimulatedCluster(loop, History(loop), has_racks=has_racks)
        client = ClusterClient("client", cluster.addresses, (TOPIC,), cluster.history, random.Random(1))
        for node in cluster.nodes.values():
            cluster.start(node)
        while not all(node.serves for node in cluster.nodes.values()):
            await asyncio.sleep(0.1)
        await loop.start_on(Machine("client"), story(cluster, client))

    loop.run(scene())


async def until(client: ClusterClient, ask: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again and again, until somebody answers with something."""
    while True:
        try:
            if (answer := await ask()) is not None:
                return answer
        except Unavailable:
            pass
        await client.back_off()


async def settled(cluster: SimulatedCluster) -> None:
    """Return when all replicas are in sync and even."""
    while cluster.unsettled() is not None:
        await asyncio.sleep(0.2)
