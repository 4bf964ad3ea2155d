"""A cluster of one partition made of the pure decisions alone: logs are lists, the store is a variable, time is a number.

The commands of a scenario are its methods.  Words:

    cluster N leader=L [min=M] [unclean] [flush=os]   N brokers, all replicas in sync, first epoch 1
    append B v...        B, as leader in its own eyes, takes records; a refusal is printed
    fetch B [cut]        follower B asks its leader once (cut: and the answer is lost)
    settle               everybody connected learns the metadata, fetches and is let into the in-sync set, until nothing moves
    learn B              B reads the metadata
    wait S               S seconds pass
    propose B            leader B asks for the in-sync set it thinks right; the answer of the store comes later
    commit B / lose-answer B   the store takes the proposal and B hears of it / does not hear of it
    isolate B.. / heal   cut off from the others and from the store
    lost B / elect B     the controller sees B's lease end / the current leader's lease end, after which B must lead
    kill B.. / power     processes die at once; what was not flushed is gone where the topic says flush=os
    flush B              what B has is on its disk
    return B             the process starts anew and is admitted
    return-twice B       the same, and the controller does not hear the store's answer: it settles the arrival once more
    hand-over B / stop B   a controlled shutdown begins: others lead / and the process ends
    resign B / mend B    B's disk failed and it leaves the in-sync set, alive as it is / and works again
    damage B O           B finds that it cannot read O and what follows; mended, it has given that up
    poll B               a consumer asks B for what comes next, naming the epoch of what it has
    reassign a,b,c / cancel / balance
    elect-missing        the controller looks at the partition again, as it does after every change
    elect-uncleanly      an operator asks for a leader at any price
    log B, state, acked, moving, watermark B   print
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from headrace.controller import election, insync, reassignment
from headrace.controller.election import ElectionRules
from headrace.controller.entries import BrokerRegistration, ConditionalWrite, Memory, PartitionState, Put, UncleanElections
from headrace.controller.image import ClusterImage, Topic
from headrace.controller.insync import InSyncChange
from headrace.controller.unclean import PartitionElected, counted
from headrace.log.epochs import EpochCache
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_BROKER
from headrace.replication import follower
from headrace.replication.follower import FetchAnswer, Next
from headrace.replication.leader import LeaderState

LAG_TIME_MAX_S = 10.0
ROUNDS_MAX = 50
TOPIC_ID = UUID(int=1)

Entry = tuple[str, int]
"""A value and its leader epoch; the offset is its place in the log."""


def _epochs(entries: list[Entry]) -> EpochCache:
    """Each epoch and the offset of its first record."""
    epochs = EpochCache(lambda: len(entries))
    for offset, (_, epoch) in enumerate(entries):
        epochs.assign(epoch, offset)
    return epochs


@dataclass
class Member:
    """One broker's process and disk."""

    broker_id: int
    view: PartitionState
    log: list[Entry] = field(default_factory=list)
    flushed: int = 0
    high_watermark: int = 0
    leading: LeaderState | None = None
    alive: bool = True
    clean: bool = True
    life: int = 1  # its broker epoch
    offline: bool = False
    damaged_from: int | None = None
    wanted: Mapping[int, int] = field(default_factory=dict)  # the in-sync set that it last proposed

    def epochs(self) -> EpochCache:
        epochs = _epochs(self.log)
        if self.leading is not None:
            epochs.assign(self.leading.state.leader_epoch, len(self.log))
        return epochs

    def cut(self, offset: int) -> None:
        del self.log[offset:]
        self.flushed = min(self.flushed, offset)
        self.high_watermark = min(self.high_watermark, offset)


class ModelCluster:
    def __init__(self, size: int, leader: int, rules: ElectionRules) -> None:
        self.rules = rules
        brokers = tuple(range(1, size + 1))
        replicas = (leader, *(broker for broker in brokers if broker != leader))
        self.stored = PartitionState(replicas=replicas, leader=leader, leader_epoch=1, isr=replicas)
        self.members = {broker: Member(broker, self.stored) for broker in brokers}
        self.isolated: set[int] = set()
        self.admitted = set(brokers)
        self.stopping: set[int] = set()
        self.now = 0.0
        self.unclean_elections = UncleanElections()
        self.waiting: list[tuple[int, int, str]] = []  # leader epoch, next offset, value: appended with acks=all
        self.acknowledged: list[str] = []
        self.consumed: list[Entry] = []
        self.output: list[str] = []
        self.members[leader].leading = self._begin(self.members[leader])

    # -- commands

    def run(self, line: str) -> None:
        word, *arguments = line.split()
        getattr(self, "do_" + word.replace("-", "_"))(*arguments)
        self._check()

    def do_append(self, broker: str, *values: str) -> None:
        member = self.members[int(broker)]
        if member.leading is None:
            self.output.append(f"append {broker}: NOT_LEADER_OR_FOLLOWER")
            return
        if not member.leading.may_write():
            self.output.append(f"append {broker}: NOT_ENOUGH_REPLICAS")
            return
        epoch = member.leading.state.leader_epoch
        for value in values:
            member.log.append((value, epoch))
            self.waiting.append((epoch, len(member.log), value))
        self._flush(member)
        self._advance(member)

    def do_fetch(self, broker: str, answer: str = "") -> None:
        self._fetch(self.members[int(broker)], answer_lost=answer == "cut")

    def do_settle(self) -> None:
        for _ in range(ROUNDS_MAX):
            before = self._fingerprint()
            for member in self._connected():
                self._learn(member)
            for member in self._connected():
                self._fetch(member)
            for member in self._connected():
                if member.leading is not None and self._propose(member):
                    self._commit(member)
            if self._fingerprint() == before:
                return
        raise AssertionError("the cluster does not come to rest")

    def do_learn(self, broker: str) -> None:
        self._learn(self.members[int(broker)])

    def do_wait(self, seconds: str) -> None:
        self.now += float(seconds)

    def do_propose(self, broker: str) -> None:
        proposed = self._propose(self.members[int(broker)])
        self.output.append(f"propose {broker}: " + (",".join(map(str, sorted(proposed))) if proposed else "nothing"))

    def do_commit(self, broker: str) -> None:
        self._commit(self.members[int(broker)])

    def do_lose_answer(self, broker: str) -> None:
        self._commit(self.members[int(broker)], answer_lost=True)

    def do_isolate(self, *brokers: str) -> None:
        self.isolated |= set(map(int, brokers))

    def do_heal(self) -> None:
        self.isolated.clear()

    def do_lost(self, broker: str) -> None:
        self.admitted.discard(int(broker))
        self._elected(election.without_broker(self.stored, int(broker), self._eligible, self.rules))

    def do_elect(self, broker: str) -> None:
        self.do_lost(str(self.stored.leader))
        assert self.stored.leader == int(broker), f"{self.stored.leader} was elected"

    def do_elect_missing(self) -> None:
        self._elected(election.elect(self.stored, self._eligible, self.rules))

    def do_elect_uncleanly(self) -> None:
        self._elected(election.elect_uncleanly(self.stored, self._eligible, self.rules))

    def do_flush(self, broker: str) -> None:
        self.members[int(broker)].flushed = len(self.members[int(broker)].log)

    def do_kill(self, *brokers: str) -> None:
        for broker in map(int, brokers):
            member = self.members[broker]
            member.alive, member.clean, member.leading = False, False, None
            member.cut(member.flushed)

    def do_power(self) -> None:
        """Everything loses power at once; the controller, wherever it comes up, sees every broker gone."""
        self.do_kill(*map(str, self.members))
        self.admitted.clear()
        for broker in self.members:
            self.do_lost(str(broker))

    def do_return(self, broker: str) -> None:
        member = self.members[int(broker)]
        member.alive, member.leading = True, None
        member.life += 1
        member.offline, member.damaged_from = False, None
        self._settle_arrival(member)
        self.admitted.add(int(broker))
        self.stopping.discard(int(broker))
        member.clean = True
        self._learn(member)

    def do_return_twice(self, broker: str) -> None:
        member = self.members[int(broker)]
        clean = member.clean
        self.do_return(broker)
        member.clean = clean
        self.admitted.discard(int(broker))
        self._settle_arrival(member)
        self.admitted.add(int(broker))
        member.clean = True
        self._learn(member)

    def _settle_arrival(self, member: Member) -> None:
        memory = Memory.ALL if member.clean else Memory.FLUSHED
        self._elected(election.restarted(self.stored, member.broker_id, self._eligible, self.rules, memory, member.life))

    def do_resign(self, broker: str) -> None:
        member = self.members[int(broker)]
        member.offline, member.leading = True, None
        self._elected(election.without_broker(self.stored, int(broker), self._eligible, self.rules))

    def do_damage(self, broker: str, offset: str) -> None:
        member = self.members[int(broker)]
        after = election.without_damaged(self.stored, member.broker_id, self._eligible, self.rules)
        member.damaged_from = int(offset)
        if after != self.stored:
            member.offline, member.leading = True, None
            self.stored = after
            self._learn(member)

    def do_mend(self, broker: str) -> None:
        member = self.members[int(broker)]
        if member.damaged_from is not None:
            if election.vouches(member.view, member.broker_id):
                self.output.append(f"mend {broker}: the others count on it")
                return
            member.cut(member.damaged_from)
            member.damaged_from = None
        member.offline = False

    def do_poll(self, broker: str) -> None:
        source = self.members[int(broker)]
        if source.leading is None:
            self.output.append(f"poll {broker}: NOT_LEADER_OR_FOLLOWER")
            return
        last_epoch = self.consumed[-1][1] if self.consumed else -1
        parted = follower.divergence(source.epochs(), len(self.consumed), last_epoch)
        if parted is not None:
            end = follower.truncation_point(_epochs(self.consumed), len(self.consumed), parted)
            self.output.append(f"poll {broker}: what was read from {end} on is gone")
            del self.consumed[end:]
            return
        new = source.log[len(self.consumed) : source.high_watermark]
        self.consumed += new
        self.output.append(f"poll {broker}: " + (" ".join(f"{value}@{epoch}" for value, epoch in new) or "nothing"))

    def do_hand_over(self, broker: str) -> None:
        self.stopping.add(int(broker))
        self.stored = election.move_away(self.stored, int(broker), self._eligible, self.rules)

    def do_stop(self, broker: str) -> None:
        self.do_hand_over(broker)
        member = self.members[int(broker)]
        member.flushed = len(member.log)
        member.alive, member.leading = False, None
        self.do_lost(broker)

    def do_reassign(self, target: str) -> None:
        wanted = tuple(map(int, target.split(",")))
        for broker in wanted:
            if broker not in self.members:
                self.members[broker] = Member(broker, self.stored)
                self.admitted.add(broker)
        image = ClusterImage(brokers={broker: BrokerRegistration(broker_id=broker) for broker in self.members})
        self.stored = reassignment.begin(image, 0, self.stored, wanted, self.rules)

    def do_cancel(self) -> None:
        self._elected(reassignment.cancel(self.stored, self._eligible, self.rules))

    def do_balance(self) -> None:
        self.stored = election.prefer(self.stored, self._eligible)

    def do_log(self, broker: str) -> None:
        entries = self.members[int(broker)].log
        self.output.append(" ".join(f"{offset}:{value}@{epoch}" for offset, (value, epoch) in enumerate(entries)) or "empty")

    def do_state(self) -> None:
        state = self.stored
        parts = [f"leader={state.leader if state.leader != NO_BROKER else 'none'}", f"epoch={state.leader_epoch}"]
        parts.append("isr=" + ",".join(map(str, sorted(state.isr))))
        if state.elr:
            parts.append("elr=" + ",".join(map(str, sorted(state.elr))))
        if self.unclean_elections.count:
            parts.append(f"unclean={self.unclean_elections.count}")
        self.output.append(" ".join(parts))

    def do_moving(self) -> None:
        state = self.stored
        names = {"replicas": state.replicas, "adding": state.adding, "removing": state.removing}
        self.output.append(" ".join(f"{name}={','.join(map(str, brokers))}" for name, brokers in names.items() if brokers))

    def do_acked(self) -> None:
        self.output.append("acked " + " ".join(self.acknowledged))

    def do_watermark(self, broker: str) -> None:
        self.output.append(f"watermark {broker}: {self.members[int(broker)].high_watermark}")

    # -- how things happen

    def _image(self) -> ClusterImage:
        """What the store holds: a broker's lease lasts until it is `lost`."""
        brokers = {
            broker: BrokerRegistration(broker_id=broker, epoch=self.members[broker].life, shutting_down=broker in self.stopping)
            for broker in self.admitted
        }
        topic = Topic("t", TOPIC_ID, {}, [self.stored])
        admitted = {broker: registration.epoch for broker, registration in brokers.items()}
        return ClusterImage(
            brokers=brokers,
            admitted=admitted,
            topics={"t": topic},
            topics_by_id={TOPIC_ID: topic},
            unclean_elections=self.unclean_elections,
        )

    def _eligible(self, broker: int) -> bool:
        return election.eligible_in(self._image())(broker)

    def _may_join(self, broker: int, life: int) -> bool:
        return insync.may_join(self._image(), broker, life)

    def _elected(self, elected: election.Elected) -> None:
        """The store takes the state and the count together, or neither."""
        write = counted(self._image(), ConditionalWrite((), ()), [PartitionElected("t", 0, elected)], int(self.now * 1000))
        self.stored = elected.state
        for operation in write.operations:
            assert isinstance(operation, Put)
            self.unclean_elections = UncleanElections.from_value(operation.value)

    def _connected(self) -> list[Member]:
        return [m for m in self.members.values() if m.alive and m.broker_id not in self.isolated]

    def _learn(self, member: Member) -> None:
        state = member.view = self.stored
        if state.leader != member.broker_id or member.broker_id not in self.admitted or member.offline:
            member.leading = None
        elif member.leading is None or member.leading.state.leader_epoch != state.leader_epoch:
            member.leading = self._begin(member)
        else:
            member.leading.on_state(state, self.now)
        self._advance(member)

    def _begin(self, member: Member) -> LeaderState:
        return LeaderState.begin(
            member.broker_id,
            member.view,
            end_offset=len(member.log),
            high_watermark=member.high_watermark,
            now=self.now,
            lag_time_max_s=LAG_TIME_MAX_S,
            min_insync_replicas=self.rules.min_insync_replicas,
        )

    def _flush(self, member: Member) -> None:
        if self.rules.flushed_before_ack:
            member.flushed = len(member.log)

    def _advance(self, member: Member) -> None:
        if member.leading is None:
            return
        member.high_watermark = member.leading.advance(len(member.log), self.now, self._may_join)
        epoch = member.leading.state.leader_epoch
        for waiting in list(self.waiting):
            if waiting[0] == epoch and member.leading.is_acknowledged(waiting[1]):
                self.waiting.remove(waiting)
                self.acknowledged.append(waiting[2])

    def _fetch(self, member: Member, answer_lost: bool = False) -> None:
        view = member.view
        if member.leading is not None or view.leader in (NO_BROKER, member.broker_id) or member.broker_id not in view.replicas:
            return
        source = self.members[view.leader]
        reachable = {member.broker_id, source.broker_id}.isdisjoint(self.isolated)
        if not source.alive or not member.alive or not reachable or member.offline:
            return
        offset = len(member.log)
        last_epoch = member.log[-1][1] if member.log else -1
        answer, entries = self._answer(source, member.broker_id, view.leader_epoch, offset, last_epoch)
        if not answer_lost:
            self._take(member, answer, entries)

    def _answer(self, source: Member, who: int, epoch: int, offset: int, last_epoch: int) -> tuple[FetchAnswer, list[Entry]]:
        if source.leading is None:
            return FetchAnswer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), []
        if epoch != source.leading.state.leader_epoch:
            older = epoch < source.leading.state.leader_epoch
            return FetchAnswer(error=ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH), []
        try:
            parted = follower.divergence(source.epochs(), offset, last_epoch)
        except RequestError as error:
            return FetchAnswer(error=error.code), []
        if parted is not None:
            return FetchAnswer(diverging=parted, high_watermark=source.high_watermark), []
        if offset > len(source.log):
            return FetchAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE), []
        source.leading.on_fetch(who, offset, 0, len(source.log), self.now, self.members[who].life)
        self._advance(source)
        return FetchAnswer(high_watermark=source.high_watermark), source.log[offset:]

    def _take(self, member: Member, answer: FetchAnswer, entries: list[Entry]) -> None:
        step = follower.next_step(answer, member.epochs(), 0, len(member.log))
        if step.next is Next.START_OVER:
            leader_end = len(self.members[member.view.leader].log)
            step = follower.after_out_of_range(len(member.log), 0, leader_end)
        match step.next:
            case Next.TRUNCATE:
                member.cut(step.offset)
            case Next.APPEND:
                member.log.extend(entries)
                self._flush(member)
                member.high_watermark = follower.watermark_after(answer.high_watermark, len(member.log), member.high_watermark)

    def _propose(self, member: Member) -> frozenset[int] | None:
        assert member.leading is not None
        wanted = member.leading.propose(len(member.log), self.now, self._may_join)
        if wanted is None:
            return None
        member.wanted = wanted
        return frozenset(wanted)

    def _commit(self, member: Member, answer_lost: bool = False) -> None:
        """The proposal reaches the store, which takes it only from the leader of the very state it has."""
        leading = member.leading
        assert leading is not None
        assert leading.proposed is not None, f"{member.broker_id} proposed nothing"
        change = InSyncChange(
            topic_id=TOPIC_ID,
            index=0,
            leader=member.broker_id,
            broker_epoch=member.life,
            leader_epoch=leading.state.leader_epoch,
            partition_epoch=leading.state.partition_epoch,
            isr=member.wanted,
        )
        try:
            self.stored, _ = insync.change_in_sync(self._image(), change, self.rules)
        except RequestError as error:
            leading.on_refused()
            self.output.append(f"commit {member.broker_id}: {error.code.name}")
            return
        if not answer_lost:
            self._learn(member)

    def _fingerprint(self) -> object:
        logs = tuple((tuple(m.log), m.high_watermark, m.view, m.leading is None) for m in self.members.values())
        return logs, self.stored

    def _check(self) -> None:
        """What always holds, after every command, as long as no election was unclean."""
        state = self.stored
        assert set(state.isr).isdisjoint(state.elr)
        assert {*state.isr, *state.elr} <= set(state.replicas)
        assert state.leader == NO_BROKER or state.leader in state.isr
        if self.unclean_elections.count == 0 and self.rules.flushed_before_ack:
            for broker in (*state.isr, *state.elr):
                held = {value for value, _ in self.members[broker].log}
                missing = [value for value in self.acknowledged if value not in held]
                assert not missing, f"broker {broker} could be elected without {missing}"


def make_cluster(line: str) -> ModelCluster:
    word, size, *options = line.split()
    assert word == "cluster", f"a scenario begins with its cluster, not with {line!r}"
    named = dict(option.partition("=")[::2] for option in options)
    rules = ElectionRules(
        min_insync_replicas=int(named.get("min", "1")),
        unclean_allowed="unclean" in named,
        flushed_before_ack=named.get("flush", "ack") == "ack",
    )
    return ModelCluster(int(size), int(named["leader"]), rules)


def play(text: str) -> tuple[list[str], list[str]]:
    """Run a scenario; answer what it printed and what it should have."""
    story, _, expected = text.partition("\n----\n")
    lines = [line for raw in story.splitlines() if (line := raw.split("#")[0].strip())]
    cluster = make_cluster(lines[0])
    for number, line in enumerate(lines[1:], 2):
        try:
            cluster.run(line)
        except RequestError as error:
            cluster.output.append(f"{line}: {error.code.name}")
        except AssertionError as error:
            raise AssertionError(f"command {number}, {line!r}: {error}") from error
    return cluster.output, expected.splitlines()
