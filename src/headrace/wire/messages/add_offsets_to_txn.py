"""AddOffsetsToTxn: a transaction is going to commit offsets of a group."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, int16, int32, int64, string

ADD_OFFSETS_TO_TXN = Api(key=25, versions=range(5), flexible_from=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnRequest:
    """The transaction and the group.  v3 is the first flexible version; v4 may answer TRANSACTION_ABORTABLE."""

    api: ClassVar[Api] = ADD_OFFSETS_TO_TXN
    transactional_id: Annotated[str, string]
    producer_id: Annotated[int, int64]
    producer_epoch: Annotated[int, int16]
    group_id: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnResponse:
    """Whether it was noted."""

    api: ClassVar[Api] = ADD_OFFSETS_TO_TXN
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
