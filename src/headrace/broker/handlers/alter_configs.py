"""AlterConfigs: replaces all settings of a resource.  Old; clients of today send IncrementalAlterConfigs."""

from headrace.broker.administration.config_changes import ConfigChanges, require_right
from headrace.broker.network.dispatch import RequestContext
from headrace.model.access.acls import Operation
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(request: AlterConfigsRequest, context: RequestContext, configs: ConfigChanges) -> AlterConfigsResponse:
    responses = []
    for resource in request.resources:
        code, message = ErrorCode.NONE, None
        try:
            require_right(context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
            texts = _texts(resource)
            await configs.alter(
                resource.resource_type,
                resource.resource_name,
                lambda before, texts=texts: texts,  # type: ignore[misc]
                validate_only=request.validate_only,
            )
        except RequestError as error:
            code, message = error.code, error.message
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
        )
    return AlterConfigsResponse(responses=tuple(responses))


def _texts(resource: AlterConfigsResource) -> dict[str, str]:
    texts = {}
    for config in resource.configs:
        if config.value is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"The setting {config.name} has no value.")
        texts[config.name] = config.value
    return texts
