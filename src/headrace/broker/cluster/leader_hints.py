"""Where to go instead: the leader that a client did not find here, named in the reply so that it need not ask (KIP-951)."""

from typing import NamedTuple

from headrace.broker.network.listeners import endpoint_of
from headrace.controller.image import ClusterImage
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_BROKER

WORTH_A_HINT = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class LeaderHint(NamedTuple):
    """A partition's leader and its address."""

    leader_id: int
    leader_epoch: int
    host: str
    port: int
    rack: str | None


def leader_hint(image: ClusterImage, broker_id: int, topic: str, index: int, code: int, listener: str) -> LeaderHint | None:
    """The leader as the listener's clients reach it, where the error is about leadership and another broker than this has it."""
    if code not in WORTH_A_HINT:
        return None
    state = image.partition(topic, index)
    if state is None or state.leader in (NO_BROKER, broker_id):
        return None
    member = image.brokers.get(state.leader)
    endpoint = endpoint_of(member, listener) if member is not None else None
    if member is None or endpoint is None:
        return None
    return LeaderHint(state.leader, state.leader_epoch, endpoint.host, endpoint.port, member.rack)
