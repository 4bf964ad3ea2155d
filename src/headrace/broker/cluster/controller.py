"""The controller: one broker, elected in the store, that decides for the whole cluster who leads what.

Every broker runs this; all but one wait.  What it writes names its election as a condition, so that a controller that was
replaced without noticing writes nothing.  All it knows is in the image: a new controller goes on where the old one stopped.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from headrace.broker.administration.partition_changes import tell_unclean
from headrace.broker.administration.topic_configs import TopicConfigs
from headrace.broker.supervision.supervision import Rule, Scope
from headrace.controller import election, fencing
from headrace.controller.election import Elected, ElectionRules
from headrace.controller.entries import (
    BrokerRegistration,
    Compare,
    Condition,
    ConditionalWrite,
    Operation,
    PartitionState,
    Put,
    partition_key,
)
from headrace.controller.image import ClusterImage, Topic
from headrace.controller.topics import clean_up
from headrace.controller.unclean import PartitionElected, counted, unclean_ones
from headrace.declaring import dataclass
from headrace.host.clock import Clock
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.membership import BrokerMembership
from headrace.metadata.store import LeaseLost, StoreUnavailable
from headrace.model.errors import RequestError
from headrace.model.identity import NO_BROKER
from headrace.model.live_config import LiveConfig

logger = logging.getLogger(__name__)

RETRY_S = 0.5
IDLE_S = 5.0
TRANSACTIONS_AT_ONCE = 4
IMBALANCE_PERCENTAGE = 10
UNFINISHED_CREATION_S = 60.0

Elect = Callable[[PartitionState, ElectionRules], Elected]


@dataclass(frozen=True, slots=True)
class Step:
    """Some partitions' new states in one write, and those of them whose election was unclean."""

    write: ConditionalWrite
    unclean: list[PartitionElected]


class Controller:
    """Claims the office when it is free, and does its work while it holds it."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        membership: BrokerMembership,
        topic_configs: TopicConfigs,
        *,
        config: LiveConfig,
        clock: Clock,
        now: Callable[[], float],
    ) -> None:
        """`now` is the event loop's time."""
        self._cluster = cluster
        self._membership = membership
        self._topic_configs = topic_configs
        self._config = config
        self._clock = clock
        self._now = now
        self._balanced_at = 0.0
        self._creations_seen: dict[object, float] = {}

    @property
    def is_active(self) -> bool:
        return self._cluster.image.controller_id == self._membership.registration.broker_id

    def start(self, scope: Scope) -> None:
        self._balanced_at = self._now()
        scope.start("controller", self._run, Rule.RESTART)

    async def _run(self) -> None:
        while True:
            revision = self._cluster.image.revision
            try:
                busy = await self._do_what_is_due()
            except (StoreUnavailable, RequestError, LeaseLost) as error:
                logger.warning("the controller's work is delayed: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            if not busy:
                await self._cluster.wait_for_change(revision, IDLE_S)

    async def _do_what_is_due(self) -> bool:
        """Do one thing; False when nothing is due."""
        image = self._cluster.image
        if not self._membership.is_valid or not self._is_registered(image):
            return False
        if image.controller_id == NO_BROKER:
            return await self._claim(image)
        if not self.is_active:
            return False
        for unsettled in fencing.unsettled(image):
            match unsettled:
                case fencing.Departed(broker_id):
                    await self._on_departed(broker_id)
                case fencing.Arrived(broker):
                    await self._on_arrived(broker)
            return True
        return await self._hand_over() or await self._elect_missing() or await self._balance() or await self._clean_up()

    def _is_registered(self, image: ClusterImage) -> bool:
        """Whether the others know this life of the broker.  One whose lease has ended would only be refused, again and again."""
        known = image.brokers.get(self._membership.registration.broker_id)
        return known is not None and known.epoch == self._membership.epoch

    async def _claim(self, image: ClusterImage) -> bool:
        membership = self._membership
        if not await self._cluster.commit(fencing.claim_controller(image, membership.registration, membership.lease)):
            return True
        logger.info(
            "broker %d is the controller, epoch %d", self._membership.registration.broker_id, self._cluster.image.controller_epoch
        )
        return True

    # -- brokers that come and go

    async def _on_departed(self, broker_id: int) -> None:
        eligible = election.eligible_in(self._cluster.image)
        concerned = self._partitions(lambda state: broker_id in state.isr or broker_id == state.leader)
        if await self._decide(concerned, lambda state, rules: election.without_broker(state, broker_id, eligible, rules)):
            logger.info("broker %d has gone", broker_id)
            await self._cluster.commit(fencing.dismiss(self._cluster.image, broker_id))

    async def _on_arrived(self, broker: BrokerRegistration) -> None:
        eligible = election.eligible_in(self._cluster.image)

        def restarted(state: PartitionState, rules: ElectionRules) -> Elected:
            return election.restarted(state, broker.broker_id, eligible, rules, broker.memory, broker.epoch)

        concerned = self._partitions(lambda state: _concerns(state, broker.broker_id))
        if await self._decide(concerned, restarted):
            logger.info("broker %d is admitted in epoch %d", broker.broker_id, broker.epoch)
            await self._cluster.commit(fencing.admit(self._cluster.image, broker))

    async def _hand_over(self) -> bool:
        """Brokers that are shutting down lead nothing that somebody else can lead."""
        image = self._cluster.image
        leaving = [broker.broker_id for broker in image.brokers.values() if broker.shutting_down]
        if not leaving:
            return False
        eligible = election.eligible_in(image)

        def moved(state: PartitionState, rules: ElectionRules) -> Elected:
            for broker_id in leaving:
                state = election.move_away(state, broker_id, eligible, rules)
            return Elected(state)

        return await self._decide_some(self._partitions(lambda state: any(b in state.isr for b in leaving)), moved)

    # -- leaders

    async def _elect_missing(self) -> bool:
        """A leaderless partition gets a leader as soon as its replicas or its settings allow one."""
        eligible = election.eligible_in(self._cluster.image)
        leaderless = self._partitions(lambda state: state.leader == NO_BROKER)
        return await self._decide_some(leaderless, lambda state, rules: election.elect(state, eligible, rules))

    async def _balance(self) -> bool:
        """Give leadership back to preferred replicas, from time to time."""
        config, now = self._config.now, self._now()
        if not config["auto.leader.rebalance.enable"]:
            return False
        if now - self._balanced_at < config["leader.imbalance.check.interval.seconds"]:
            return False
        self._balanced_at = now
        image = self._cluster.image
        eligible = election.eligible_in(image)
        unbalanced = list(election.unbalanced(image, eligible, IMBALANCE_PERCENTAGE))
        return await self._decide_some(unbalanced, lambda state, rules: Elected(election.prefer(state, eligible)))

    # -- writing

    def _partitions(self, concerned: Callable[[PartitionState], bool]) -> list[tuple[Topic, int, PartitionState]]:
        return [(topic, index, state) for topic, index, state in self._cluster.image.partitions() if concerned(state)]

    async def _decide(self, partitions: Iterable[tuple[Topic, int, PartitionState]], elect: Elect) -> bool:
        """Write what `elect` makes of each partition; False when somebody changed one meanwhile, and all is to be redone."""
        # A few at a time are decided and written, so that ten thousand partitions are not one long silence.
        steps = self._steps(partitions, elect)
        while some := _at_once(steps):
            if not all(await asyncio.gather(*(self._write(step) for step in some))):
                return False
        return True

    async def _write(self, step: Step) -> bool:
        taken = await self._cluster.commit(step.write)
        if taken:
            tell_unclean(step.unclean)
        return taken

    async def _decide_some(self, partitions: list[tuple[Topic, int, PartitionState]], elect: Elect) -> bool:
        """The same; True when there was something to write."""
        changing = any(elect(state, self._rules(topic)).state != state for topic, _, state in partitions)
        if changing:
            await self._decide(partitions, elect)
        return changing

    def _rules(self, topic: Topic) -> ElectionRules:
        return ElectionRules.of(self._topic_configs.of(topic.name))

    def _steps(self, partitions: Iterable[tuple[Topic, int, PartitionState]], elect: Elect) -> Iterator[Step]:
        image = self._cluster.image
        fence = fencing.written_by_controller(image)
        # One operation and one condition each; room is left for the store's own, for the fence and for the count.
        size = self._cluster.store.operations_max - 3
        decided: list[PartitionElected] = []
        conditions: list[Condition] = [fence]
        operations: list[Operation] = []
        rules: dict[str, ElectionRules] = {}

        def step() -> Step:
            write = ConditionalWrite(tuple(conditions), tuple(operations))
            return Step(counted(image, write, decided, self._clock.wall_ms()), unclean_ones(decided))

        for topic, index, _ in partitions:
            if topic.topic_id not in image.topics_by_id:
                continue
            if topic.name not in rules:
                rules[topic.name] = self._rules(topic)
            # As it is now, like the revision below: others may have changed it since this began.
            state = topic.partitions[index]
            elected = elect(state, rules[topic.name])
            if elected.state == state:
                continue
            decided.append(PartitionElected(topic.name, index, elected))
            key = partition_key(topic.topic_id, index)
            conditions.append(Compare(key, image.mod_revision(key)))
            operations.append(Put(key, elected.state.to_value()))
            if len(operations) >= size:
                yield step()
                decided, conditions, operations = [], [fence], []
        if operations:
            yield step()

    # -- leftovers

    async def _clean_up(self) -> bool:
        """Remove partitions whose topic was never finished by whoever began it."""
        image, now = self._cluster.image, self._now()
        self._creations_seen = {topic_id: self._creations_seen.get(topic_id, now) for topic_id in image.creations}
        overdue = [t for t in image.creations if now - self._creations_seen[t] > UNFINISHED_CREATION_S]
        leftovers = [*image.garbage(), *overdue]
        for topic_id in leftovers:
            await self._cluster.commit(clean_up(image, topic_id))
        return bool(leftovers)


def _at_once(steps: Iterator[Step]) -> list[Step]:
    """The next few; one that counts is the last of them, since the next that counts builds on what it wrote."""
    some: list[Step] = []
    while len(some) < TRANSACTIONS_AT_ONCE and (step := next(steps, None)) is not None:
        some.append(step)
        if step.unclean:
            break
    return some


def _concerns(state: PartitionState, broker_id: int) -> bool:
    if broker_id in state.isr or broker_id in state.elr or broker_id == state.leader:
        return True
    return state.leader == NO_BROKER and broker_id in state.replicas
