"""What a client may do to a resource, as a bit field (KIP-430).  Without access control that is all that can be done to it."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final


class Operation(IntEnum):
    """The protocol's numbers; each is the place of its bit."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


NOT_ASKED: Final = -(2**31)
_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
ON_TOPIC: Final = _bits(
    (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        *_CONFIGS,
    )
)
ON_GROUP: Final = _bits((Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIGS))
ON_CLUSTER: Final = _bits(
    (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.IDEMPOTENT_WRITE,
        *_CONFIGS,
    )
)
