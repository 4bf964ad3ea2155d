"""Share groups at work on partitions in memory, with the state that a share coordinator would keep beside them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from headrace.broker.handlers import share_acknowledge, share_fetch
from headrace.broker.metrics.figures import ShareFigures
from headrace.broker.network.throttling import Throttling
from headrace.broker.sharing.dead_letters import ENABLED, DeadLetters
from headrace.broker.sharing.ends import PartitionEnds
from headrace.broker.sharing.fetching import ShareFetching
from headrace.broker.sharing.partitions import SharePartitions
from headrace.broker.sharing.settings import ShareSettings
from headrace.controller.entries import BrokerRegistration, PartitionState
from headrace.controller.image import Topic
from headrace.coordination.decision import Decision
from headrace.coordination.moment import Moment
from headrace.coordination.share.entries import ShareKey, ShareState
from headrace.coordination.share.partition import ShareLimits
from headrace.coordination.share.sessions import ShareSessions
from headrace.coordination.share.state_shard import InitializeState, ReadState, ShareStateShard, WriteState
from headrace.host.clock import SystemClock
from headrace.host.disk import SystemDisk
from headrace.host.entropy import SystemEntropy
from headrace.model.errors import ErrorCode, RequestError
from headrace.records.batch import iterate_batches
from headrace.records.record import Record, read_records
from headrace.security.quotas import Quotas
from tests.support import share_requests
from tests.support.share_requests import VERSION
from tests.support.waiting import until_async
from tests.unit.broker.handlers.replicas_in_memory import HERE, TOPIC_ID, TakingConnection, batch, image_of, replicas_of
from tests.unit.broker.handlers.requests import context_of

LETTERS = "dlq.t"


class KeptState:
    """The share coordinator of a test: its decisions are kept at once, unless it is told to refuse, or to be away."""

    def __init__(self) -> None:
        self.shard = ShareStateShard(500)
        self.refuses_writes: ErrorCode | None = None
        self.is_away = False
        self.reads = 0
        self.writes: list[WriteState] = []
        self._entries = 0

    def begin(self, key: ShareKey, start: int = 0, state_epoch: int = 0) -> None:
        request = InitializeState(key=key, state_epoch=state_epoch, start_offset=start)
        self._kept(self.shard.initialize(request, "", self._now))

    def move_to(self, start: int, state_epoch: int) -> None:
        """As somebody does by hand."""
        self.begin(ShareKey("workers", TOPIC_ID, 0), start, state_epoch)

    async def read(self, request: ReadState) -> ShareState:
        await asyncio.sleep(0)
        self.reads += 1
        if self.is_away:
            raise RequestError(ErrorCode.NOT_COORDINATOR)
        state: ShareState = self._kept(self.shard.read(request, "", self._now))
        return state

    async def write(self, request: WriteState) -> None:
        await asyncio.sleep(0)
        if self.refuses_writes is not None:
            raise RequestError(self.refuses_writes)
        self._kept(self.shard.write(request, "", self._now))
        self.writes.append(request)

    _now = Moment(1_000, 1.0)

    def _kept(self, decision: Decision[Any]) -> Any:
        for entry in decision.entries:
            self.shard.replay(entry, self._entries)
            self._entries += 1
        return decision.replies[0].message


class Stage:
    """One topic, whose partitions are led here unless told otherwise, and one group.  On a running loop."""

    def __init__(self, *states: PartitionState, sessions_max: int = 10, **limits: Any) -> None:
        self.image = image_of(*(states or (HERE,)))
        self.image.topics[LETTERS] = Topic(LETTERS, SystemEntropy().uuid(), {ENABLED: "true"}, [HERE])
        self.registration = self.image.brokers[1] = BrokerRegistration(broker_id=1)
        self.replicas = replicas_of(self.image)
        self.kept = KeptState()
        self.settings = ShareSettings(limits=ShareLimits(**limits), offset_reset="earliest", committed_only=False)
        self.quotas: dict[Any, Any] = {}
        self.figures = ShareFigures()
        peers: Any = None
        ends = PartitionEnds(1, self.replicas, lambda: self.image, peers)
        self.tasks: set[asyncio.Task[None]] = set()
        changes: Any = SimpleNamespace(on_role=[], on_removed=[])
        self.changes = changes
        client: Any = self.kept
        loop = asyncio.get_running_loop()
        sessions = ShareSessions(sessions_max)
        self.dead_letters = DeadLetters(
            1, self.replicas, lambda: self.image, peers, ends, SystemClock(), SystemDisk(), self.figures
        )
        self.partitions = SharePartitions(
            self.replicas,
            changes,
            sessions,
            client,
            lambda group: self.settings,
            SystemClock(),
            SystemDisk(),
            self._spawn,
            loop,
            SystemEntropy(),
            self.figures,
            self.dead_letters,
        )
        self.sharing = ShareFetching(
            sessions=sessions,
            partitions=self.partitions,
            settings_of=lambda group: self.settings,
            image=lambda: self.image,
            throttling=Throttling(Quotas(lambda: self.quotas, lambda: 1), lambda: self.image, loop.time, lambda topic: 0),
            disk=SystemDisk(),
            broker_id=1,
            bytes_max=1 << 20,
        )
        for index in range(len(self.image.topics["t"].partitions)):
            self.kept.begin(ShareKey("workers", TOPIC_ID, index))

    def _spawn(self, coroutine: Coroutine[Any, Any, None], kind: str = "") -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def produce(self, *values: bytes, index: int = 0) -> None:
        self.replicas.find("t", index).append(batch(*values))

    async def somebody_waits(self) -> None:
        await until_async(lambda: bool(self.replicas.find("t", 0).readers), "a fetch waits for records")

    def letters(self) -> list[Record]:
        """What is in the topic of dead letters."""
        log = self.replicas.find(LETTERS, 0).log
        data = log.read(0, max_bytes=1 << 20, up_to=log.end_offset, at_least_one=True).data if log.end_offset else b""
        return [record for _, each in iterate_batches(data) for record in read_records(each)]

    def member(self, name: str = "ann") -> "Member":
        return Member(self, name)


class Member:
    """A share consumer: counts the epochs of its session, and has a connection of its own."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.epoch = 0
        self.connection = TakingConnection()

    async def fetch(self, *indexes: int, **more: Any) -> Any:
        """The reply as it is.  Without partitions, those of the session."""
        named = indexes or ((0,) if self.epoch == 0 else ())
        request = share_requests.fetch("workers", self.name, self.epoch, TOPIC_ID, named, **more)
        reply = await share_fetch.handle(request, context_of(request, VERSION, self.connection), self.stage.sharing)
        self._count(reply)
        return reply

    async def take(self, *indexes: int, **more: Any) -> list[tuple[int, int, int]]:
        """Ranges that are the member's now, and how often they have been delivered."""
        reply = await self.fetch(*indexes, **more)
        assert reply.error_code == ErrorCode.NONE, reply
        return share_requests.acquired(reply)

    async def say(self, first: int, last: int, *types: int, index: int = 0, **more: Any) -> ErrorCode:
        """Acknowledge; what the partition's answer is."""
        reply = await self.acknowledge(first, last, *types, index=index, **more)
        assert reply.error_code == ErrorCode.NONE, reply
        return ErrorCode(reply.responses[0].partitions[0].error_code)

    async def acknowledge(self, first: int, last: int, *types: int, index: int = 0, **more: Any) -> Any:
        request = share_requests.acknowledge("workers", self.name, self.epoch, TOPIC_ID, first, last, *types, index=index, **more)
        context = context_of(request, VERSION, self.connection)
        reply = await share_acknowledge.handle(request, context, self.stage.sharing)
        self._count(reply)
        return reply

    def _count(self, reply: Any) -> None:
        if reply.error_code == ErrorCode.NONE:
            self.epoch += 1

    def lose_connection(self) -> None:
        for end in list((self.connection.when_lost or {}).values()):
            end()


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(10):
            await story()

    asyncio.run(within())
