"""Who leads the partitions that a share consumer did not find here (KIP-951), for one reply."""

from uuid import UUID

from headrace.broker.cluster.leader_hints import leader_hint
from headrace.controller.image import CurrentImage
from headrace.model.errors import RequestError
from headrace.wire.messages.fetch import LeaderIdAndEpoch, NodeEndpoint

NOBODY = LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)


class LeaderHints:
    """Gathers the addresses of those that are named."""

    def __init__(self, image: CurrentImage, broker_id: int, listener: str) -> None:
        self._image = image
        self._broker_id = broker_id
        self._listener = listener
        self._endpoints: dict[int, NodeEndpoint] = {}

    @property
    def endpoints(self) -> tuple[NodeEndpoint, ...]:
        return tuple(self._endpoints.values())

    def of(self, topic_id: UUID, index: int, *errors: RequestError | None) -> LeaderIdAndEpoch:
        """The leader, where any of the errors is about leadership."""
        image = self._image()
        topic = image.topics_by_id.get(topic_id)
        for error in errors:
            if error is None or topic is None:
                continue
            hint = leader_hint(image, self._broker_id, topic.name, index, error.code, self._listener)
            if hint is not None:
                self._endpoints[hint.leader_id] = NodeEndpoint(
                    node_id=hint.leader_id, host=hint.host, port=hint.port, rack=hint.rack
                )
                return LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
        return NOBODY
