"""Where quotas meet requests: what a reply says about waiting, and the connection that then rests."""

from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.fetch import FetchableTopicResponse
from headrace.wire.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from headrace.broker.app import Broker
    from headrace.broker.dispatch import RequestContext

ANONYMOUS = "ANONYMOUS"  # whoever has not said who they are


def after_produce(broker: "Broker", request: ProduceRequest, context: "RequestContext") -> int:
    """The throttle time in milliseconds for a Produce reply."""
    if not broker.quotas.active:
        return 0
    sizes: dict[str, int] = {}
    for topic in request.topic_data:
        known = broker.image.topics_by_id.get(topic.topic_id)
        name = known.name if known is not None else topic.name
        sizes[name] = sizes.get(name, 0) + sum(len(data.records or b"") for data in topic.partition_data)
    return _rest(broker.quotas.on_produced(ANONYMOUS, context.client_id or "", sizes, broker.loop.time()), context)


def after_fetch(broker: "Broker", results: list[FetchableTopicResponse], context: "RequestContext") -> int:
    """The throttle time in milliseconds for a Fetch reply to a consumer."""
    if not broker.quotas.active:
        return 0
    sizes: dict[str, int] = {}
    for topic in results:
        known = broker.image.topics_by_id.get(topic.topic_id)
        name = known.name if known is not None else topic.topic
        sizes[name] = sizes.get(name, 0) + sum(len(data.records or b"") for data in topic.partitions)
    return _rest(broker.quotas.on_fetched(ANONYMOUS, context.client_id or "", sizes, broker.loop.time()), context)


def after_work(broker: "Broker", seconds: float, context: "RequestContext") -> None:
    """The broker's own time counts too."""
    _rest(broker.quotas.on_worked(ANONYMOUS, context.client_id or "", seconds, broker.loop.time()), context)


def require_room(broker: "Broker", topic: str) -> None:
    """Raise when a topic has used up the storage it was given."""
    if broker.quotas.active:
        stored = sum(p.log.size_bytes for p in broker.replicas.of_topic(topic) if p.is_leader)
        if broker.quotas.is_full(topic, stored):
            raise RequestError(ErrorCode.POLICY_VIOLATION, f"Topic '{topic}' has used up its storage quota.")


def _rest(seconds: float, context: "RequestContext") -> int:
    if seconds <= 0:
        return 0
    context.connection.rest(seconds)
    return max(1, round(seconds * 1000))
