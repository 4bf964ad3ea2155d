"""No partition is made where every disk that it could be on is full: it would be offline until there is room."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from headrace.broker.health.disk_space import says_full
from headrace.model.errors import ErrorCode, RequestError

if TYPE_CHECKING:
    from headrace.broker.app import Broker


def require_room(broker: "Broker", assignments: Iterable[Collection[int]] | None) -> None:
    """Raise RequestError when a new partition would have full disks only; without assignments it may be on any broker."""
    members = broker.image.brokers
    full = {broker_id for broker_id, member in members.items() if says_full(member.degraded)} - {broker.broker_id}
    if broker.space.is_short:
        full.add(broker.broker_id)
    for replicas in [members.keys()] if assignments is None else assignments:
        if replicas and full.issuperset(replicas):
            names = ", ".join(map(str, sorted(replicas)))
            own = f" (on broker {broker.broker_id} the {broker.space.why_short()})" if broker.space.is_short else ""
            raise RequestError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The disk is full on {'broker' if len(replicas) == 1 else 'brokers'} {names}: "
                f"no partition is made until there is room{own}.",
            )
