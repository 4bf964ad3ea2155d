"""From what was read to the reply: what the reader is told, how long it must rest, and who leads what it did not find here."""

from headrace.broker.cluster.leader_hints import leader_hint
from headrace.broker.fetching.interest import Interest
from headrace.broker.fetching.reading import Readout
from headrace.broker.metrics.figures import ApiFigures
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.network.throttling import Throttling
from headrace.controller.image import CurrentImage
from headrace.wire.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, NodeEndpoint
from headrace.wire.pieces import pieces_of


class Answers:
    """Sends them."""

    def __init__(self, broker_id: int, image: CurrentImage, throttling: Throttling) -> None:
        self._broker_id = broker_id
        self._image = image
        self._throttling = throttling

    def send(
        self, readout: Readout, interest: Interest, context: RequestContext, reply: PendingReply, *, is_replica: bool
    ) -> None:
        throttle_ms = 0 if is_replica else self._throttling.after_fetch(readout.topics, context)
        hints = self._hints(readout.topics, context.connection.listener, reply.figures) if readout.is_urgent else ()
        topics = tuple(interest.news(readout.topics))
        response = FetchResponse(
            responses=topics, node_endpoints=hints, throttle_time_ms=throttle_ms, session_id=interest.session_id
        )
        send(response, context, reply)

    def _hints(self, topics: list[FetchableTopicResponse], listener: str, figures: ApiFigures | None) -> tuple[NodeEndpoint, ...]:
        image = self._image()
        hints: dict[int, NodeEndpoint] = {}
        for topic in topics:
            for data in topic.partitions:
                if not data.error_code:
                    continue
                if figures is not None:
                    figures.errors[data.error_code] += 1
                known = image.topics_by_id.get(topic.topic_id)
                name = known.name if known is not None else topic.topic
                hint = leader_hint(image, self._broker_id, name, data.partition_index, data.error_code, listener)
                if hint is not None:
                    data.current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
                    hints[hint.leader_id] = NodeEndpoint(node_id=hint.leader_id, host=hint.host, port=hint.port, rack=hint.rack)
        return tuple(hints.values())


def send(response: FetchResponse, context: RequestContext, reply: PendingReply) -> None:
    """Large records are among the pieces as they are."""
    if response.error_code and reply.figures is not None:
        reply.figures.errors[response.error_code] += 1
    reply.send((context.response_header(), *pieces_of(response, context.api_version)))
