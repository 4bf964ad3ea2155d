"""What somebody may do, as the brokers tell it: what they would refuse is not offered on a page."""

from __future__ import annotations

from typing import Final

from headrace.client.brokers.cluster import Cluster
from headrace.client.errors import HeadraceError
from headrace.model.access.acls import Operation
from headrace.wire.messages.describe_cluster import DescribeClusterRequest

UNKNOWN: Final = -(2**31)
NAMED: Final = [each for each in Operation if each.name not in ("UNKNOWN", "ANY", "ALL")]


def rights_of(bits: int) -> list[str]:
    """Operations by their bits; all of them where a broker does not say: it refuses what is not allowed anyway."""
    return [each.name.lower() for each in NAMED if bits == UNKNOWN or bits >> each & 1]


async def cluster_rights(cluster: Cluster) -> list[str]:
    """What may be done with the cluster as a whole."""
    try:
        reply = await cluster.call(DescribeClusterRequest(include_cluster_authorized_operations=True))
    except HeadraceError:
        return []
    return rights_of(reply.cluster_authorized_operations)
