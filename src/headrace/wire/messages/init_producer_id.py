"""InitProducerId: an identity for an idempotent or transactional producer."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, boolean, int16, int32, int64, string

INIT_PRODUCER_ID = Api(key=22, versions=range(7), flexible_from=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdRequest:
    """Asks for a producer id; with a transactional id it also fences whoever used it before.

    v2 is the first flexible version, v3 renews an identity that is known, v6 is for two-phase commit (KIP-939).
    """

    api: ClassVar[Api] = INIT_PRODUCER_ID
    transactional_id: Annotated[str | None, string]
    transaction_timeout_ms: Annotated[int, int32]
    producer_id: Annotated[int, int64, Since(3)] = -1
    producer_epoch: Annotated[int, int16, Since(3)] = -1
    enable2_pc: Annotated[bool, boolean, Since(6)] = False
    keep_prepared_txn: Annotated[bool, boolean, Since(6)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdResponse:
    """The producer id and epoch to use.  v6 adds the transaction that is prepared and not yet decided."""

    api: ClassVar[Api] = INIT_PRODUCER_ID
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    producer_id: Annotated[int, int64] = -1
    producer_epoch: Annotated[int, int16]
    ongoing_txn_producer_id: Annotated[int, int64, Since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[int, int16, Since(6)] = -1
