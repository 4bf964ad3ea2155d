"""UnregisterBroker: forgets a broker that is gone for good and holds nothing."""

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import RequestContext
from headrace.controller.fencing import unregister
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from headrace.broker.app import Broker


async def handle(broker: "Broker", request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    try:
        await broker.cluster.submit(lambda image: [unregister(image, request.broker_id)])
    except RequestError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE)
