"""ApiVersions: what this broker serves.  A client that asks in a version we do not know is told in version 0."""

from collections.abc import Mapping
from sys import intern

from headrace.broker.administration import features
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import CurrentImage
from headrace.model.errors import ErrorCode
from headrace.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)


def handle(
    request: ApiVersionsRequest | None,
    context: RequestContext,
    image: CurrentImage,
    broker_id: int,
    versions: Mapping[int, range],
) -> ApiVersionsResponse:
    """`request` is None when its version is unknown to us; `versions` are those of the APIs that clients may use, by key."""
    error = ErrorCode.NONE
    if request is None:
        error = ErrorCode.UNSUPPORTED_VERSION
    elif context.api_version >= 3 and not (request.client_software_name and request.client_software_version):
        error = ErrorCode.INVALID_REQUEST
    elif request.cluster_id not in (None, "", image().cluster_id) or request.node_id not in (-1, broker_id):
        # A client that kept an old address reached somebody else's broker (KIP-1242).
        error = ErrorCode.REBOOTSTRAP_REQUIRED
    if error is ErrorCode.NONE and request is not None and request.client_software_name:
        # Many connections have the same: one text for all of them.
        context.connection.software = intern(f"{request.client_software_name} {request.client_software_version}")
    api_keys = tuple(
        ApiVersion(api_key=key, min_version=served.start, max_version=served.stop - 1) for key, served in sorted(versions.items())
    )
    return ApiVersionsResponse(
        error_code=error,
        api_keys=api_keys,
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=level, max_version=level) for name, level in features.LEVELS.items()
        ),
        # As in Kafka, how far this broker has read the metadata; see DescribeQuorum.
        finalized_features_epoch=image().revision,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in features.LEVELS.items()
        ),
    )
