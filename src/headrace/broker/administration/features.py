"""What this broker can do beyond the versions of its APIs, in the words of KIP-584.

Each feature runs at one level: there is nothing to turn up or down, so the level that a cluster runs at is the only one that a
broker supports.  `metadata.version` and `kraft.version` are missing because what they number, KRaft's metadata log, is.
"""

from typing import Final

from headrace.model.errors import ErrorCode, RequestError

# Clients choose their protocol by these levels.  None is 0, which clients of Kafka 3.7 and before do not bear (KAFKA-17492).
LEVELS: Final = {"eligible.leader.replicas.version": 1, "group.version": 1, "share.version": 1, "transaction.version": 2}
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def check_update(feature: str, level: int, upgrade_type: int) -> None:
    """Raise RequestError unless the feature runs at this level anyway."""
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _refusal(feature, level, "There is no such upgrade type.")
    if feature not in LEVELS:
        raise _refusal(feature, level, "This cluster does not have this feature.")
    if level != LEVELS[feature]:
        raise _refusal(feature, level, f"It runs at level {LEVELS[feature]}, the only one that this cluster supports.")


def _refusal(feature: str, level: int, reason: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {feature}. {reason}")
