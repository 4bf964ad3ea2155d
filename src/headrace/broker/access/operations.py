"""What a client may do with the cluster, as bits (KIP-430)."""

from headrace.broker.network.dispatch import RequestContext
from headrace.model.access.acls import Operation, ResourceType


def operations_on_cluster(context: RequestContext, *, asked: bool) -> int:
    """None for those who may not even describe it."""
    if asked and not context.may(Operation.DESCRIBE, ResourceType.CLUSTER):
        return 0
    return context.authorized_operations(ResourceType.CLUSTER, asked=asked)
