"""DescribeCluster: the brokers and the controller."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, boolean, int8, int16, int32, string

DESCRIBE_CLUSTER = Api(key=60, versions=range(3), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterRequest:
    """Asks for the brokers.  v1 may ask for controllers instead, v2 for fenced brokers too."""

    api: ClassVar[Api] = DESCRIBE_CLUSTER
    include_cluster_authorized_operations: Annotated[bool, boolean]
    endpoint_type: Annotated[int, int8, Since(1)] = 1
    include_fenced_brokers: Annotated[bool, boolean, Since(2)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterBroker:
    """A broker and where clients reach it."""

    broker_id: Annotated[int, int32]
    host: Annotated[str, string]
    port: Annotated[int, int32]
    rack: Annotated[str | None, string] = None
    is_fenced: Annotated[bool, boolean, Since(2)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterResponse:
    """The brokers."""

    api: ClassVar[Api] = DESCRIBE_CLUSTER
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    endpoint_type: Annotated[int, int8, Since(1)] = 1
    cluster_id: Annotated[str, string]
    controller_id: Annotated[int, int32] = -1
    brokers: Annotated[tuple[DescribeClusterBroker, ...], array(DescribeClusterBroker)]
    cluster_authorized_operations: Annotated[int, int32] = -(2**31)
