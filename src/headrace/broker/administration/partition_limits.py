"""How many partitions there may be: so many in one request, so many on a broker.  Each costs memory for as long as it exists."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from headrace.controller.image import CurrentImage
from headrace.controller.topics import loads
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.live_config import LiveConfig

REQUEST_PARTITIONS_MAX = 10_000  # Kafka's own limit on what one request may create
SETTING = "headrace.partitions.max"


def refused_by_size(counts: Iterable[int]) -> RequestError | None:
    """What to tell a request that would create more partitions than one request may; None where it would not."""
    wanted = sum(count for count in counts if count > 0)
    if wanted <= REQUEST_PARTITIONS_MAX:
        return None
    message = f"One request may create at most {REQUEST_PARTITIONS_MAX} partitions; this one asks for {wanted}."
    return RequestError(ErrorCode.POLICY_VIOLATION, message)


class PartitionLimits:
    """The room that this broker sees for new partitions, less what it is creating at the moment."""

    def __init__(self, image: CurrentImage, config: LiveConfig) -> None:
        self._image = image
        self._config = config
        self._being_made: Counter[int] = Counter()
        self._being_placed = 0

    @contextmanager
    def room_for(self, count: int, factor: int, assignments: Iterable[tuple[int, ...]] | None) -> Iterator[None]:
        """Hold room for new partitions while they are created; RequestError where there is none."""
        wanted = Counter(broker for replicas in assignments or () for broker in replicas)
        # A factor beyond the number of brokers is refused where replicas are placed.
        placed = 0 if assignments is not None else count * min(factor, len(self._image().brokers))
        self._check(count, wanted, placed)
        self._being_made += wanted
        self._being_placed += placed
        try:
            yield
        finally:
            self._being_made -= wanted
            self._being_placed -= placed

    def _check(self, count: int, wanted: Counter[int], placed: int) -> None:
        limit: int = self._config.now[SETTING]
        load, _ = loads(self._image())
        load += self._being_made
        for broker_id in wanted:
            if load[broker_id] + wanted[broker_id] > limit:
                raise self._refusal(count, limit, f"broker {broker_id} has {load[broker_id]}")
        room = sum(max(0, limit - load[broker_id]) for broker_id in self._image().brokers) - self._being_placed
        if placed > room:
            raise self._refusal(count, limit, f"there is room for {max(0, room)} more replicas")

    def _refusal(self, count: int, limit: int, have: str) -> RequestError:
        message = f"{count} more partitions would exceed {SETTING}={limit} for each broker: {have}."
        return RequestError(ErrorCode.POLICY_VIOLATION, message)
