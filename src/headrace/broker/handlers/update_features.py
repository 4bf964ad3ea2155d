"""UpdateFeatures: every feature runs at its one level; an update asks for that, or is refused with all others."""

from headrace.broker.administration.features import SAFE_DOWNGRADE, UPGRADE, check_update
from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

FIRST_VERSION_WITH_TYPES = 1
FIRST_VERSION_WITHOUT_RESULTS = 2


def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    updates = request.feature_updates
    try:
        for update in updates:
            check_update(update.feature, update.max_version_level, _upgrade_type(update, context.api_version))
    except RequestError as error:
        message = f"The update failed for all features since the following feature had an error: {error.message}"
        return UpdateFeaturesResponse(error_code=error.code, error_message=message)
    results = tuple(UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE) for update in updates)
    shown = results if context.api_version < FIRST_VERSION_WITHOUT_RESULTS else ()
    return UpdateFeaturesResponse(error_code=ErrorCode.NONE, results=shown)


def _upgrade_type(update: FeatureUpdateKey, version: int) -> int:
    if version >= FIRST_VERSION_WITH_TYPES:
        return update.upgrade_type
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
