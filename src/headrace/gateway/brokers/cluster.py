"""A cluster as one caller of the gateway sees it, whose readers share what they wait for."""

from collections.abc import Mapping
from typing import Any, Final

from headrace.client.brokers.cluster import COORDINATOR_MOVED, EARLIEST, LATEST, Isolation
from headrace.client.brokers.cluster import Cluster as ClientsCluster
from headrace.gateway.brokers.tails import Tails
from headrace.gateway.serving.tasks import Tasks

# What those who serve callers need of the SDK's, beside what is here.
__all__ = ["CLIENT_ID", "COORDINATOR_MOVED", "EARLIEST", "LATEST", "Cluster", "Isolation"]

CLIENT_ID: Final = "headrace-gateway"


class Cluster(ClientsCluster):
    """With the ends of partitions watched once for all readers."""

    def __init__(self, bootstrap: str, properties: Mapping[str, Any], tasks: Tasks) -> None:
        super().__init__(bootstrap, properties, client_id=CLIENT_ID)
        self.tails = Tails(self, tasks)
