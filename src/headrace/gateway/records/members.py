"""Members of consumer groups, for callers without a client: made here, read and acknowledged over HTTP.

A member's id says all that is needed to make it again, and which gateway has it: any gateway passes a request on to that one, and
where it has died, the one that the id falls to makes the member anew.  The member is static (its id is its instance id), so that
the group sees the same member come back, and the broker shuts out a former one that still lives.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import orjson
from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from headrace.client.errors import translate
from headrace.client.librdkafka import Consumer, attempt, new_consumer
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter, Reply
from headrace.gateway.api.shapes import described, read
from headrace.gateway.brokers.tails import Shown
from headrace.gateway.records.by_schema import shown_as
from headrace.gateway.records.consume import ReadRecord
from headrace.gateway.records.formats import SHOW_KEYS, SHOW_VALUES, document
from headrace.gateway.serving.problems import Problem, not_found
from headrace.model.identity import TopicPartition
from headrace.records.record import Record

if TYPE_CHECKING:
    from headrace.gateway.callers.caller import Caller
    from headrace.gateway.fleet.fleet import Fleet

operations = Operations("groups")

LOOK_S: Final = 5.0
MAX_POLL_MS: Final = 600_000
ID_CHARACTERS_MAX: Final = 4000


@dataclass(frozen=True, slots=True)
class NewMember:
    """A member of a group."""

    topics: Annotated[list[str], described("What to read.", minItems=1, maxItems=100, example=["orders"])]
    begin: Annotated[Literal["earliest", "latest"], described("Where the group has committed nothing.")] = "earliest"
    isolation: Annotated[Literal["read_committed", "read_uncommitted"], described("What is read.")] = "read_committed"
    session_timeout_ms: Annotated[
        int, described("After how long without a gateway its partitions go to others.", minimum=1000, maximum=1_800_000)
    ] = 45_000


@dataclass(frozen=True, slots=True)
class MemberMade:
    """The id is the path under which it is read."""

    id: str
    group: str


@dataclass(frozen=True, slots=True)
class MemberRead:
    """Records of the partitions that the member has."""

    records: list[ReadRecord]


@dataclass(frozen=True, slots=True)
class DonePlace:
    """A partition, and the last offset in it that is done with."""

    topic: Annotated[str, described("The topic.", minLength=1, maxLength=249)]
    partition: Annotated[int, described("The partition.", minimum=0, maximum=2**31 - 1)]
    offset: Annotated[int, described("The last one that is done with.", minimum=0)]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What is done with; all that was read, when nothing is named."""

    offsets: Annotated[list[DonePlace], described("By partition.", maxItems=10_000)] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MemberId:
    """What an id says."""

    owner: str
    group: str
    nonce: str
    wanted: NewMember

    def encoded(self) -> str:
        wanted = self.wanted
        parts = [self.owner, self.group, self.nonce, wanted.topics, wanted.begin, wanted.isolation, wanted.session_timeout_ms]
        return base64.urlsafe_b64encode(orjson.dumps(parts)).decode().rstrip("=")


def read_id(text: str) -> MemberId:
    """Raises a Problem for what is none."""
    try:
        if len(text) > ID_CHARACTERS_MAX:
            raise ValueError
        owner, group, nonce, topics, begin, isolation, timeout_ms = orjson.loads(
            base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        )
        shape = {"topics": topics, "begin": begin, "isolation": isolation, "session_timeout_ms": timeout_ms}
        if not all(isinstance(each, str) and each for each in (owner, group, nonce)):
            raise ValueError
        return MemberId(owner, group, nonce, read(NewMember, shape))
    except (ValueError, TypeError, binascii.Error, Problem):
        raise not_found("member_not_found", "There is no such member.", "Make one with POST /groups/{group}/members.") from None


class Member:
    """One consumer of librdkafka, in a thread of its own, one call at a time."""

    def __init__(self, identity: MemberId, caller: Caller) -> None:
        self.caller_key = caller.key
        self.used_at = time.monotonic()
        self._bootstrap = caller.bootstrap
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gateway-member")
        self._lock = asyncio.Lock()
        self._consumer: Consumer = new_consumer(
            {
                **caller.properties,
                "client.id": "headrace-gateway",
                "group.id": identity.group,
                "group.instance.id": hashlib.sha256(identity.encoded().encode()).hexdigest()[:32],
                "auto.offset.reset": identity.wanted.begin,
                "isolation.level": identity.wanted.isolation,
                "session.timeout.ms": identity.wanted.session_timeout_ms,
                "max.poll.interval.ms": max(MAX_POLL_MS, identity.wanted.session_timeout_ms),
                "enable.auto.commit": False,
                "allow.auto.create.topics": False,
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.subscribe(list(identity.wanted.topics))
        self._read: dict[TopicPartition, int] = {}

    async def _in_thread(self, call: Any, *arguments: Any) -> Any:
        async with self._lock:
            self.used_at = time.monotonic()
            try:
                return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
            finally:
                self.used_at = time.monotonic()

    async def read(self, limit: int, wait_s: float) -> list[Shown]:
        """Records, at most `limit`; waits for the first one."""
        messages: list[Message] = await self._in_thread(self._some, limit, wait_s)
        return [self._shown(each) for each in messages]

    def _some(self, limit: int, wait_s: float) -> list[Message]:
        deadline = time.monotonic() + wait_s
        while True:
            left = max(0.0, deadline - time.monotonic())
            found = self._consumer.consume(limit, min(left, 0.1) if left else 0.0)
            good = [each for each in found if each.error() is None]
            failed = [each.error() for each in found if each.error() is not None]
            if not good and failed and (fatal := next((each for each in failed if _is_for_the_caller(each)), None)) is not None:
                raise translate(fatal, "read as a member of the group", self._bootstrap)
            if good or not left:
                return good

    def _shown(self, message: Message) -> Shown:
        place = TopicPartition(message.topic() or "", message.partition() or 0)
        offset = message.offset() or 0
        self._read[place] = offset + 1
        headers = tuple((name, value) for name, value in message.headers() or ())
        return Shown(place, Record(offset, message.timestamp()[1], message.key(), message.value(), headers))

    async def acknowledge(self, wanted: Acknowledgement) -> None:
        """Commit.  Raises where the partition is another member's by now."""
        done = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in wanted.offsets} or dict(self._read)
        positions = [ClientPartition(place.topic, place.partition, offset) for place, offset in done.items()]
        if positions:
            await self._in_thread(
                lambda: attempt(
                    "acknowledge for the group",
                    self._bootstrap,
                    lambda: self._consumer.commit(offsets=positions, asynchronous=False),
                )
            )

    async def close(self) -> None:
        await self._in_thread(self._consumer.close)
        self._thread.shutdown(wait=False)


def _is_for_the_caller(error: KafkaError) -> bool:
    return error.name() not in ("_PARTITION_EOF", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_MAX_POLL_EXCEEDED")


class Members:
    """The members that this gateway has."""

    def __init__(self, fleet: Fleet, members_max: int, idle_s: float) -> None:
        self._fleet = fleet
        self._max = members_max
        self._idle_s = idle_s
        self._each: dict[str, Member] = {}

    def __len__(self) -> int:
        return len(self._each)

    def make(self, identity: MemberId, caller: Caller) -> Member:
        if len(self._each) >= self._max:
            raise Problem(
                503, "too_many_members", "This gateway has as many members as it may.", "Delete one, or ask another gateway."
            )
        member = self._each[identity.encoded()] = Member(identity, caller)
        return member

    def holder_of(self, identity: MemberId) -> str:
        """The gateway that has a member: the one in its id, or, where that has died, the one that it falls to."""
        living = self._fleet.living()
        if identity.owner in living:
            return identity.owner
        return min(living, key=lambda each: hashlib.blake2b(f"{each}\0{identity.nonce}".encode(), digest_size=8).digest())

    def of(self, identity: MemberId, caller: Caller) -> Member:
        """One that is here, made again where a dead gateway had it."""
        member = self._each.get(identity.encoded())
        if member is None:
            if identity.owner == self._fleet.id:
                raise not_found("member_not_found", "This member has ended, or was idle for too long.", "Make another one.")
            member = self.make(identity, caller)
        if member.caller_key != caller.key:
            raise not_found("member_not_found", "There is no such member.", "Make one with POST /groups/{group}/members.")
        return member

    def has(self, identity: MemberId) -> bool:
        return identity.encoded() in self._each

    async def end(self, identity: MemberId) -> None:
        member = self._each.pop(identity.encoded(), None)
        if member is not None:
            await member.close()

    async def forget_idle(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            oldest = time.monotonic() - self._idle_s
            for name in [name for name, member in self._each.items() if member.used_at < oldest]:
                await self._each.pop(name).close()

    async def close(self) -> None:
        members, self._each = list(self._each.values()), {}
        await asyncio.gather(*(member.close() for member in members), return_exceptions=True)


@operations.post("/groups/{group}/members", "Join a group", body=NewMember, answer=MemberMade, status=201)
async def join(call: Call) -> Reply:
    """The member is read and acknowledged under its id, at any gateway. Where it is neither for five minutes, it leaves."""
    identity = MemberId(call.gateway.fleet.id, call.path("group"), secrets.token_hex(8), call.body)
    for topic in identity.wanted.topics:
        await call.caller.cluster.leaders(topic)  # which says so where it is not there, or none of the caller's
    call.gateway.members.make(identity, call.caller)
    name = identity.encoded()
    return Reply(MemberMade(name, identity.group), headers={"Location": f"/groups/{identity.group}/members/{name}"})


LIMIT: Final = Parameter("limit", "How many records at most.", "number", default=500, minimum=1, maximum=10_000)
WAIT: Final = Parameter("wait_ms", "How long to wait for the first record.", "number", default=1000, maximum=60_000)


@operations.get(
    "/groups/{group}/members/{member}/records",
    "Read as a member",
    query=(LIMIT, WAIT, SHOW_KEYS, SHOW_VALUES),
    answer=MemberRead,
)
async def read_as_member(call: Call) -> Any:
    """What is read is not done with before it is acknowledged: another member gets it when this one ends before."""
    identity = _identity(call)
    holder = call.gateway.members.holder_of(identity)
    if holder != call.gateway.fleet.id:
        return await call.gateway.forward(call, holder)
    member = call.gateway.members.of(identity, call.caller)
    keys, values = await shown_as(call, "keys"), await shown_as(call, "values")
    found = await member.read(call.query["limit"], call.query["wait_ms"] / 1000)
    await call.gateway.by_schema.prepare(found, keys, values)
    return {"records": [document(each, keys, values) for each in found]}


@operations.post("/groups/{group}/members/{member}/acknowledgements", "Acknowledge what is done with", body=Acknowledgement)
async def acknowledge(call: Call) -> Any:
    identity = _identity(call)
    holder = call.gateway.members.holder_of(identity)
    if holder != call.gateway.fleet.id:
        return await call.gateway.forward(call, holder)
    await call.gateway.members.of(identity, call.caller).acknowledge(call.body)
    return None


@operations.delete("/groups/{group}/members/{member}", "Leave a group")
async def leave(call: Call) -> Any:
    identity = _identity(call)
    holder = call.gateway.members.holder_of(identity)
    if holder != call.gateway.fleet.id:
        return await call.gateway.forward(call, holder)
    call.gateway.members.of(identity, call.caller)
    await call.gateway.members.end(identity)
    return None


def _identity(call: Call) -> MemberId:
    identity = read_id(call.path("member"))
    if identity.group != call.path("group"):
        raise not_found("member_not_found", "There is no such member in this group.", "Use the path that Location gave.")
    return identity
