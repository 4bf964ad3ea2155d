"""SaslHandshake: the choice of a mechanism.  After version 0 the tokens come and go without a header, as in Kafka 4."""

from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    sign_in = context.connection.sign_in
    if sign_in is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())
    reply = sign_in.on_handshake(request.mechanism, context.api_version, context.origin)
    return SaslHandshakeResponse(error_code=reply.error_code, mechanisms=reply.mechanisms)
