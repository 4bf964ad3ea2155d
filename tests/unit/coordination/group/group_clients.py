"""Simulated members that follow their protocols to the letter, for the state machine tests."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.coordination.group.conversion.subscription_bytes import read_assignment, read_subscription, write_assignment
from headrace.coordination.group.requests import JoinReply
from headrace.model.errors import ErrorCode, RequestError
from tests.unit.coordination.group.group_driver import GROUP, Driver, catalog, subscription, topic_id

TOPIC = "t"
PARTITIONS = 6
TOPICS = catalog(t=PARTITIONS)
T = topic_id(TOPIC)


@dataclass(eq=False)
class ClassicClient:
    """An eager consumer: gives everything up, joins, syncs, reads, beats."""

    name: str
    driver: Driver
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    owned: set[int] = field(default_factory=set)
    joining: int | None = None
    syncing: int | None = None

    @property
    def is_member(self) -> bool:
        return self.generation >= 0 and self.joining is None and self.syncing is None

    def step(self) -> None:
        """Do what comes next: look for an answer, or ask."""
        if self.joining is not None:
            self._look_at_join()
        elif self.syncing is not None:
            self._look_at_sync()
        elif self.generation < 0:
            self._join()
        else:
            self._beat()

    def _join(self) -> None:
        self.owned = set()
        protocols = (("range", subscription(TOPIC)),)
        self.joining = self.driver.join(self.member_id, client=self.name, instance_id=self.instance_id, protocols=protocols)
        self._look_at_join()

    def _look_at_join(self) -> None:
        reply = self._answer(self.joining)
        if reply is None:
            return
        self.joining = None
        if isinstance(reply, ErrorCode):
            self._on_error(reply)
        elif reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif reply.error is not ErrorCode.NONE:
            self._on_error(reply.error)
        else:
            self.member_id, self.generation, self.protocol = reply.member_id, reply.generation, reply.protocol
            assignments = self._assign(reply) if reply.leader == self.member_id and not reply.skip_assignment else {}
            self.syncing = self.driver.start_sync(reply, assignments, instance_id=self.instance_id)

    def _assign(self, reply: JoinReply) -> dict[str, bytes]:
        readers = [member.member_id for member in reply.members if TOPIC in read_subscription(member.metadata).topics]
        shares = {member_id: tuple(range(PARTITIONS))[number :: len(readers)] for number, member_id in enumerate(readers)}
        return {member_id: write_assignment({TOPIC: share}, 1) for member_id, share in shares.items()}

    def _look_at_sync(self) -> None:
        reply = self._answer(self.syncing)
        if reply is None:
            return
        self.syncing = None
        if isinstance(reply, ErrorCode) or reply.error is not ErrorCode.NONE:
            self._on_error(reply if isinstance(reply, ErrorCode) else reply.error)
        elif reply.assignment:
            self.owned = set(read_assignment(reply.assignment).partitions.get(TOPIC, ()))

    def _beat(self) -> None:
        reply = JoinReply(member_id=self.member_id, generation=self.generation)
        self._on_error(self.driver.beat(reply, instance_id=self.instance_id))

    def _on_error(self, code: ErrorCode) -> None:
        match code:
            case ErrorCode.NONE:
                return
            case ErrorCode.REBALANCE_IN_PROGRESS | ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self.owned = set()
                self.generation = -1
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION | ErrorCode.FENCED_INSTANCE_ID:
                self.owned = set()
                self.generation = -1
                self.member_id = ""
            case _:
                raise AssertionError(f"a well-behaved member was told {code.name}")

    def _answer(self, token: int | None) -> Any:
        assert token is not None
        if self.driver.is_parked(token):
            return None
        answer = self.driver.replies[token]
        return answer.code if isinstance(answer, RequestError) else answer

    def leave(self) -> None:
        if self.member_id and self.joining is None and self.syncing is None:
            # Whoever leaves does not wait to hear how that went.
            with suppress(RequestError):
                self.driver.leave((self.member_id, self.instance_id) if self.instance_id else self.member_id)
            self.forget()

    def crash(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.member_id, self.generation, self.owned = "", -1, set()
        self.joining = self.syncing = None

    def on_coordinator_lost(self) -> None:
        """Whatever was parked is answered NOT_COORDINATOR: a client joins again where it was joining."""
        if self.joining is not None or self.syncing is not None:
            self.joining = self.syncing = None
            self.generation, self.owned = -1, set()

    def counts_as_owner(self) -> bool:
        group = self.driver.shard.groups.get(GROUP)
        return group is not None and self.member_id in group.members


@dataclass(eq=False)
class ConsumerClient:
    """A member of the consumer protocol: lets go of what it is told to, says so, takes what it is given."""

    name: str
    driver: Driver
    lives: int = 0
    epoch: int = 0
    owned: set[int] = field(default_factory=set)
    is_in: bool = False
    # What it has let go of or taken but not yet told the coordinator.
    unsaid: bool = False

    @property
    def member_id(self) -> str:
        return f"{self.name}.{self.lives}"

    def step(self) -> None:
        owned = {T: frozenset(self.owned)} if self.owned else {}
        try:
            if not self.is_in:
                reply = self.driver.consumer_join(self.member_id, TOPIC)
            elif self.unsaid:
                reply = self.driver.consumer_beat(self.member_id, self.epoch, owned=owned)
            else:
                reply = self.driver.consumer_beat(self.member_id, self.epoch)
        except RequestError as error:
            self._on_error(error.code)
            return
        assert not self.is_in or reply.member_epoch >= self.epoch, "a member's epoch went back"
        self.is_in, self.unsaid, self.epoch = True, False, reply.member_epoch
        if reply.assignment is not None:
            assigned = set(reply.assignment.get(T, ()))
            self.unsaid = assigned != self.owned
            self.owned = assigned

    def _on_error(self, code: ErrorCode) -> None:
        if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self.unsaid = True
            return
        assert code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND), code
        self.is_in, self.epoch, self.owned = False, 0, set()

    def leave(self) -> None:
        if self.is_in:
            with suppress(RequestError):
                self.driver.consumer_beat(self.member_id, -1)
            self.crash()

    def crash(self) -> None:
        self.lives += 1
        self.is_in, self.epoch, self.owned = False, 0, set()

    def on_coordinator_lost(self) -> None:
        return

    def counts_as_owner(self) -> bool:
        group = self.driver.shard.groups.get(GROUP)
        return self.is_in and group is not None and self.member_id in group.members
