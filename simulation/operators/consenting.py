"""An operator who gives consent: where nobody may lead who is sure to hold everything, somebody leads all the same."""

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from simulation.clients.client import ClusterClient, Unavailable

VERSION = 2
UNCLEAN = 1
TIMEOUT_MS = 2000


async def elect_at_any_price(client: ClusterClient, partition: TopicPartition) -> None:
    """Return when the partition has a leader, by this election or without it."""
    wanted = TopicPartitions(topic=partition.topic, partitions=(partition.partition,))
    request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=(wanted,), timeout_ms=TIMEOUT_MS)
    while True:
        try:
            response: ElectLeadersResponse = await client.call_any(request, VERSION)
            code = ErrorCode(response.replica_election_results[0].partition_result[0].error_code)
            client.history.tell(f"asks for a leader of {partition} at any price: {code.name}")
            if code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                return
        except Unavailable:
            pass
        await client.back_off()
