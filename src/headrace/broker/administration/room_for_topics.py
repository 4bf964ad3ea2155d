"""No partition is made where every disk that it could be on is full: it would be offline until there is room."""

from collections.abc import Collection, Iterable

from headrace.broker.health.disk_space import DiskSpace, says_full
from headrace.controller.image import ClusterImage
from headrace.model.errors import ErrorCode, RequestError


def require_room(image: ClusterImage, space: DiskSpace, broker_id: int, assignments: Iterable[Collection[int]] | None) -> None:
    """Raise RequestError when a new partition would have full disks only; without assignments it may be on any broker.

    `space` is that of this broker, `broker_id`; the others say of themselves whether they are full."""
    members = image.brokers
    full = {other for other, member in members.items() if says_full(member.degraded)} - {broker_id}
    if space.is_short:
        full.add(broker_id)
    for replicas in [members.keys()] if assignments is None else assignments:
        if replicas and full.issuperset(replicas):
            names = ", ".join(map(str, sorted(replicas)))
            own = f" (on broker {broker_id} the {space.why_short()})" if space.is_short else ""
            raise RequestError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The disk is full on {'broker' if len(replicas) == 1 else 'brokers'} {names}: "
                f"no partition is made until there is room{own}.",
            )
