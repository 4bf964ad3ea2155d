"""EndTxn: commits or aborts a transaction."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, boolean, int16, int32, int64, string

END_TXN = Api(key=26, versions=range(6), flexible_from=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnRequest:
    """Which transaction, and how it ends.  v3 is the first flexible version; from v5 on every end raises the epoch (KIP-890)."""

    api: ClassVar[Api] = END_TXN
    transactional_id: Annotated[str, string]
    producer_id: Annotated[int, int64]
    producer_epoch: Annotated[int, int16]
    committed: Annotated[bool, boolean]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnResponse:
    """Whether it ends so.  v5 gives the producer's next id and epoch."""

    api: ClassVar[Api] = END_TXN
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    producer_id: Annotated[int, int64, Since(5)] = -1
    producer_epoch: Annotated[int, int16, Since(5)] = -1
