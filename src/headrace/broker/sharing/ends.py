"""Where partitions end for consumers, wherever they are led: what a share group's lag is counted from."""

from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.partitions.replicas import Replicas
from headrace.controller.image import CurrentImage
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST = -1
VERSION = 7
TIMEOUT_S = 5.0
PURPOSE = "ends of partitions"


class PartitionEnds:
    """Asks the replica here, or the leader."""

    def __init__(self, broker_id: int, replicas: Replicas, image: CurrentImage, peers: Peers) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._image = image
        self._peers = peers

    async def of(self, topic: str, index: int) -> int | None:
        """None where nobody knows it now."""
        state = self._image().partition(topic, index)
        if state is None:
            return None
        if state.leader == self._broker_id:
            try:
                return self._replicas.find(topic, index).high_watermark
            except RequestError:
                return None
        wanted = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(wanted,)),))
        try:
            reply = await self._peers.call(state.leader, request, VERSION, timeout=TIMEOUT_S, purpose=PURPOSE)
        except PeerUnreachable:
            return None
        answer = reply.topics[0].partitions[0]
        return int(answer.offset) if answer.error_code == ErrorCode.NONE else None
