"""SaslAuthenticate: one message of somebody who signs in."""

from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    connection = context.connection
    sign_in = connection.sign_in
    if sign_in is None:
        message = "This listener does not ask who you are."
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message, auth_bytes=b"")
    reply = await sign_in.on_token(bytes(request.auth_bytes), context.origin)
    if (identity := sign_in.session.identity) is not None:
        connection.on_signed_in(identity)
    return SaslAuthenticateResponse(
        error_code=reply.error_code,
        error_message=reply.error_message,
        auth_bytes=reply.auth_bytes,
        session_lifetime_ms=reply.session_lifetime_ms,
    )
