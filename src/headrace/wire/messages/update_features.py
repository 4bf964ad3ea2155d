"""UpdateFeatures: changes the level at which the cluster runs a feature."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, Until, array, boolean, int8, int16, int32, string

UPDATE_FEATURES = Api(key=57, versions=range(3), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdateKey:
    """A feature and its new level."""

    feature: Annotated[str, string]
    max_version_level: Annotated[int, int16]
    allow_downgrade: Annotated[bool, boolean, Until(0)] = False
    upgrade_type: Annotated[int, int8, Since(1)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesRequest:
    """The new levels.  v1 adds kinds of downgrade and validation."""

    api: ClassVar[Api] = UPDATE_FEATURES
    timeout_ms: Annotated[int, int32] = 60000
    feature_updates: Annotated[tuple[FeatureUpdateKey, ...], array(FeatureUpdateKey)]
    validate_only: Annotated[bool, boolean, Since(1)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatableFeatureResult:
    """What became of one feature."""

    feature: Annotated[str, string]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse:
    """Whether it was done; until v1 for each feature."""

    api: ClassVar[Api] = UPDATE_FEATURES
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    results: Annotated[tuple[UpdatableFeatureResult, ...], array(UpdatableFeatureResult), Until(1)] = ()
