"""Counters that the broker's parts keep: plain numbers, made larger where somebody has the number anyway.

Nothing here has a name on the wire, a lock or a label to look up.  They belong to the event loop's thread; whoever collects
(`collectors`) reads them there.  What can be counted when somebody asks (how many partitions lack a replica) is not kept at all.
"""

from collections import defaultdict
from collections.abc import Callable

from headrace.metrics.histogram import MICROSECONDS, Distribution, FineSeconds, LongSeconds, Seconds, Sizes
from headrace.security.authorization.guard import Denial

# What takes no longer than the first bound of the histograms is not put into them one by one: the rest is known.
SHORT_POWER = Seconds.SHOWN[0]
SHORT_S = (1 << SHORT_POWER) / MICROSECONDS


class ApiFigures:
    """The requests of one API.  Of each, how long it waited to be started, was worked on, waited for others, and was sent."""

    PHASES = ("queue", "work", "wait", "send")
    # Whether somebody follows this one request, and wants to know what it did (`tracing.trail`).
    follows = False

    __slots__ = ("errors", "given_up", "queue", "send", "sent", "started", "wait", "work")

    def __init__(self) -> None:
        self.started = 0
        self.sent = 0
        # Whose connection was gone before the reply was.
        self.given_up = 0
        # By error code, for each topic, partition, group or whole request that had one.
        self.errors: defaultdict[int, int] = defaultdict(int)
        self.queue = Seconds()
        self.work = Seconds()
        self.wait = Seconds()
        self.send = Seconds()

    def on_sent(self, arrived: float, started: float, worked: float, answered: float, sent: float) -> None:
        """A reply has left.  `arrived` is 0 for one that was started at once.

        Written out, as this is done for every request: with a call for each phase it would take twice as long.  What took no
        time at all, as waiting for others mostly does, is among what is known without being counted."""
        self.sent += 1
        if arrived:
            self.queue.sum += (seconds := started - arrived)
            if seconds > SHORT_S:
                self.queue.counts[int(seconds * MICROSECONDS).bit_length()] += 1
        self.work.sum += (seconds := worked - started)
        if seconds > SHORT_S:
            self.work.counts[int(seconds * MICROSECONDS).bit_length()] += 1
        if answered > worked:
            self.wait.sum += (seconds := answered - worked)
            if seconds > SHORT_S:
                self.wait.counts[int(seconds * MICROSECONDS).bit_length()] += 1
        self.send.sum += (seconds := sent - answered)
        if seconds > SHORT_S:
            self.send.counts[int(seconds * MICROSECONDS).bit_length()] += 1

    def on_given_up(self) -> None:
        """Its connection was gone before the reply was."""
        self.given_up += 1

    def phase(self, name: str) -> Distribution:
        found: Seconds = getattr(self, name)
        counts = list(found.counts)
        counts[SHORT_POWER] += self.sent - sum(counts)
        return found.taken()._replace(counts=tuple(counts))


class ClientFigures:
    """What clients of one name, signed in as one user, did with connections that are closed by now."""

    __slots__ = ("received_bytes", "requests", "sent_bytes")

    def __init__(self) -> None:
        self.requests = 0
        self.received_bytes = 0
        self.sent_bytes = 0


class ConnectionFigures:
    """What one connection did.  An object of its own: with another few attributes an idle connection would take a KiB more."""

    __slots__ = ("arrived", "client_id", "monotonic", "received_bytes", "requests", "sent_bytes")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.requests = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        # What it calls itself, as of its last request.
        self.client_id = ""
        # When each frame arrived that waits to be started, as far as that is known: the first of them.
        self.arrived: list[float] | None = None

    def note_waiting(self, frames: int) -> None:
        """So many wait now; those that began to do so with this call have a time from here on."""
        arrived = self.arrived or []
        self.arrived = arrived + [self.monotonic()] * (frames - len(arrived))


class TraceFigures:
    """Requests of which spans are made."""

    def __init__(self) -> None:
        self.spans = 0
        self.dropped = 0  # there were more than could be made


class NetworkFigures:
    """Connections and requests."""

    CLIENTS_MAX = 1000  # of those that are gone; what the others did counts under one name

    def __init__(self) -> None:
        self.by_api: defaultdict[int, ApiFigures] = defaultdict(ApiFigures)
        self.opened: defaultdict[str, int] = defaultdict(int)  # by listener
        self.refused = 0  # there were max.connections, or their address made too many
        self.cut_off = 0  # for what they sent, or did not do
        self.unreadable = 0  # requests that could not be read, or are not served
        self.failed = 0  # requests that failed in the broker
        self.received_bytes = 0  # over connections that are closed by now
        self.sent_bytes = 0
        self.throttled: defaultdict[str, float] = defaultdict(float)  # seconds, by what there was too much of
        self.gone: dict[tuple[str, str], ClientFigures] = {}
        self.traces = TraceFigures()

    def on_closed(self, client_id: str, user: str, requests: int, received_bytes: int, sent_bytes: int) -> None:
        """A connection has ended: what it did stays counted."""
        self.received_bytes += received_bytes
        self.sent_bytes += sent_bytes
        if requests:
            client = self._of_gone(client_id, user)
            client.requests += requests
            client.received_bytes += received_bytes
            client.sent_bytes += sent_bytes

    def _of_gone(self, client_id: str, user: str) -> ClientFigures:
        key = (client_id, user)
        if key not in self.gone and len(self.gone) >= self.CLIENTS_MAX:
            key = ("", "")
        found = self.gone.get(key)
        if found is None:
            found = self.gone[key] = ClientFigures()
        return found


class Traffic:
    """What went in and out of one partition, here, since it was opened."""

    __slots__ = ("bytes_in", "bytes_out", "records_in", "records_out", "replicated_in", "replicated_out")

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        # Records as far as offsets tell them: where compaction took some out, the gaps count.
        self.records_out = 0
        self.bytes_out = 0
        # Bytes to and from other brokers.
        self.replicated_in = 0
        self.replicated_out = 0

    def take_over(self, gone: "Traffic") -> None:
        """Count what a partition did that is no longer here.  It starts over, so that nothing is counted twice."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(gone, name))
            setattr(gone, name, 0)


class WriteFigures:
    """Appends, as leader."""

    def __init__(self) -> None:
        self.batch_bytes = Sizes(range(7, 24, 2))
        self.batch_records = Sizes(range(0, 15, 2))
        self.duplicates = 0
        # Times that this broker became the leader of a partition, and that the in-sync set changed of one that it led.
        self.elections_clean = 0
        self.elections_unclean = 0
        self.in_sync_shrinks = 0
        self.in_sync_expansions = 0
        # Batches that were not what their checksum says, by where that was seen; those of producers count as errors of Produce.
        self.corrupt: defaultdict[str, int] = defaultdict(int)


class DiskFigures:
    """What the disk had to do."""

    def __init__(self) -> None:
        self.flushes = FineSeconds()
        self.flush_failures = 0
        self.cold_reads = Seconds()
        # By why they went.
        self.removed_segments: defaultdict[str, int] = defaultdict(int)
        self.removed_bytes: defaultdict[str, int] = defaultdict(int)
        self.cleanings = LongSeconds()
        self.cleaned_bytes = 0  # read by cleanings
        self.freed_bytes = 0
        self.failed_cleanings = 0

    def on_cleaned(self, seconds: float, before: int, after: int) -> None:
        """A log was compacted, or expired records taken out of it; it had so many bytes before and after."""
        self.cleanings.observe(seconds)
        self.cleaned_bytes += before
        self.freed_bytes += max(0, before - after)


class ClusterFigures:
    """What this broker had to do with the others, and with the store of their metadata."""

    def __init__(self) -> None:
        self.round_trips: defaultdict[str, FineSeconds] = defaultdict(FineSeconds)  # by what the store was asked for
        self.round_trip_failures: defaultdict[str, int] = defaultdict(int)

    def on_round_trip(self, operation: str, seconds: float, succeeded: bool) -> None:
        """The store of the metadata has answered, or not."""
        self.round_trips[operation].observe(seconds)
        if not succeeded:
            self.round_trip_failures[operation] += 1


class CoordinatorFigures:
    """Groups and transactions whose coordinator this broker is."""

    def __init__(self) -> None:
        self.rebalances = LongSeconds()  # of groups of the classic protocol
        self.transactions: defaultdict[str, int] = defaultdict(int)  # by how they ended


class DelayFigures:
    """Delayed records that this broker delivered."""

    def __init__(self) -> None:
        self.delivered = 0
        self.late = LongSeconds()  # between when each was due and when its partition had committed it


class ShareFigures:
    """What share groups do with the partitions that this broker leads."""

    NAMED_MAX = 10_000

    def __init__(self) -> None:
        self.deliveries = 0  # of records
        self.outcomes = {"accepted": 0, "released": 0, "given_up": 0}  # how they ended
        self.dead: dict[tuple[str, str], int] = {}  # those given up, by group and topic
        self.breaker_trips = 0
        self.letters_lost = 0

    def on_given_up(self, group: str, topic: str, records: int) -> None:
        """Of groups that come and go, those that were first are counted by name."""
        if (group, topic) in self.dead or len(self.dead) < self.NAMED_MAX:
            self.dead[group, topic] = self.dead.get((group, topic), 0) + records


class SecurityFigures:
    """Who came in, and who was told no."""

    def __init__(self) -> None:
        self.sign_ins: defaultdict[tuple[str, str], int] = defaultdict(int)  # by mechanism and outcome
        self.denials: defaultdict[tuple[str, str], int] = defaultdict(int)  # by operation and kind of resource

    def on_sign_in(self, mechanism: str, succeeded: bool) -> None:
        self.sign_ins[mechanism, "succeeded" if succeeded else "failed"] += 1

    def on_denied(self, denial: Denial) -> None:
        self.denials[denial.check.operation.name, denial.check.resource_type.name] += 1


class TierFigures:
    """What went to the object store, and what was deleted there."""

    __slots__ = ("deleted_objects", "failures", "swept_objects", "uploaded_bytes", "uploaded_segments")

    def __init__(self) -> None:
        self.uploaded_segments = 0
        self.uploaded_bytes = 0
        self.deleted_objects = 0
        self.swept_objects = 0
        # Rounds over a partition that the store, or the disk, cut short.
        self.failures = 0


class Figures:
    """All that a broker counts."""

    def __init__(self) -> None:
        self.network = NetworkFigures()
        self.writes = WriteFigures()
        # Of partitions that are no longer here.
        self.gone = Traffic()
        self.disk = DiskFigures()
        self.tier = TierFigures()
        self.cluster = ClusterFigures()
        self.coordinators = CoordinatorFigures()
        self.delays = DelayFigures()
        self.sharing = ShareFigures()
        self.security = SecurityFigures()
        self.loop_delay = FineSeconds()
