"""ApiVersions: what a broker speaks.  The first thing that a client asks."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, Tagged, array, boolean, int16, int32, int64, string

API_VERSIONS = Api(key=18, versions=range(6), flexible_from=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    """Asks for the list of APIs.

    v3 is the first flexible version and names the client; v5 names the broker that it believes to talk to.
    """

    api: ClassVar[Api] = API_VERSIONS
    client_software_name: Annotated[str, string, Since(3)] = ""
    client_software_version: Annotated[str, string, Since(3)] = ""
    cluster_id: Annotated[str | None, string, Since(5)] = None
    node_id: Annotated[int, int32, Since(5)] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    """One API and the versions of it that are served."""

    api_key: Annotated[int, int16]
    min_version: Annotated[int, int16]
    max_version: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFeatureKey:
    """A feature of the cluster and the levels that this broker could run it at."""

    name: Annotated[str, string]
    min_version: Annotated[int, int16]
    max_version: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizedFeatureKey:
    """A feature of the cluster and the level that it runs at."""

    name: Annotated[str, string]
    max_version_level: Annotated[int, int16]
    min_version_level: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse:
    """The list of APIs with their versions.  v1 adds the throttle time; v3 adds features, as tagged fields."""

    api: ClassVar[Api] = API_VERSIONS
    error_code: Annotated[int, int16]
    api_keys: Annotated[tuple[ApiVersion, ...], array(ApiVersion)]
    throttle_time_ms: Annotated[int, int32, Since(1)] = 0
    supported_features: Annotated[tuple[SupportedFeatureKey, ...], array(SupportedFeatureKey), Since(3), Tagged(0)] = ()
    finalized_features_epoch: Annotated[int, int64, Since(3), Tagged(1)] = -1
    finalized_features: Annotated[tuple[FinalizedFeatureKey, ...], array(FinalizedFeatureKey), Since(3), Tagged(2)] = ()
    zk_migration_ready: Annotated[bool, boolean, Since(3), Tagged(3)] = False
