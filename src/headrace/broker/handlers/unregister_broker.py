"""UnregisterBroker: forgets a broker that is gone for good and holds nothing."""

from headrace.broker.network.dispatch import RequestContext
from headrace.controller.fencing import unregister
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def handle(request: UnregisterBrokerRequest, context: RequestContext, cluster: ClusterMetadata) -> UnregisterBrokerResponse:
    try:
        await cluster.submit(lambda image: [unregister(image, request.broker_id)])
    except RequestError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE)
