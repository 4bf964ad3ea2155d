"""Who is a broker: not whoever says so, but whoever came as the broker that it says it is comes to others."""

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from headrace.broker.cluster.peers import PEER
from headrace.controller.entries import BrokerRegistration
from headrace.controller.image import CurrentImage
from headrace.model.access.acls import CLUSTER_NAME, Operation, ResourceType
from headrace.model.access.principals import ANONYMOUS
from headrace.model.identity import broker_id_of

if TYPE_CHECKING:
    from headrace.broker.network.dispatch import RequestContext


class KnownBrokers:
    """The others, as they are registered."""

    def __init__(self, broker_id: int, inter_broker_listener: str, open_listeners: AbstractSet[str], image: CurrentImage) -> None:
        """`open_listeners` are those of this broker at which nobody is asked for a name."""
        self._broker_id = broker_id
        self._inter_broker_listener = inter_broker_listener
        self._open_listeners = open_listeners
        self._image = image

    def have(self, context: "RequestContext") -> bool:
        """Whether a request is another broker's.  The client id says whose, and the connection proves it; where there are rules,
        it also needs the right of brokers."""
        prefix, _, number = (context.client_id or "").rpartition("-")
        broker_id = broker_id_of(number)
        # A broker asks nothing of itself by a connection.
        if prefix != PEER or broker_id is None or broker_id == self._broker_id:
            return False
        registered = self._image().brokers.get(broker_id)
        if registered is None or not self._has_come_as(registered, context):
            return False
        authorizer = context.guard.authorizer
        return authorizer is None or authorizer.allows(
            context.subject, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
        )

    def use(self, listener: str) -> bool:
        """Whether brokers come to each other by it: by this one's settings or, while those are changed, by another's."""
        return listener == self._inter_broker_listener or any(
            each.inter_broker_listener == listener for each in self._image().brokers.values()
        )

    def _has_come_as(self, registered: BrokerRegistration, context: "RequestContext") -> bool:
        """By its listener and, where that asks for names, by its name.  Having shown none there is nobody's proof."""
        listener = context.connection.listener
        if listener != (registered.inter_broker_listener or self._inter_broker_listener):
            return False
        return listener in self._open_listeners or context.principal == registered.principal != ANONYMOUS
