"""DescribeCluster: the brokers, the controller and the cluster's id."""

from headrace.broker.access.operations import operations_on_cluster
from headrace.broker.handlers.metadata import controller_of
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.listeners import endpoint_of
from headrace.controller.image import CurrentImage
from headrace.model.errors import ErrorCode
from headrace.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS = 1


def handle(
    request: DescribeClusterRequest, context: RequestContext, image: CurrentImage, broker_id: int
) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="Only the endpoints of brokers can be asked for; there are no separate controllers.",
            cluster_id=image().cluster_id,
            brokers=(),
        )
    members = image().members if request.include_fenced_brokers else {}
    everybody = {**members, **image().brokers}
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=image().cluster_id,
        controller_id=controller_of(image(), broker_id),
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=member.rack,
                is_fenced=broker_id not in image().brokers,
            )
            for broker_id, member in everybody.items()
            if (endpoint := endpoint_of(member, context.connection.listener)) is not None
        ),
        cluster_authorized_operations=operations_on_cluster(context, asked=request.include_cluster_authorized_operations),
    )
