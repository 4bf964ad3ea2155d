"""Bugs put in on purpose: each must be found within a bounded number of seeds, or the simulation is not worth its time."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from headrace.broker.access.rules import AccessRules
from headrace.broker.cluster.leadership import FollowedLeadership
from headrace.broker.coordinators.led_shard import LedShard
from headrace.broker.coordinators.transactions.marker_writes import MarkerWriter
from headrace.broker.fetching import reading as fetching
from headrace.broker.following import sessions as replica_sessions
from headrace.broker.partitions.partition import Partition
from headrace.broker.sharing.led import LedSharePartition
from headrace.controller import election
from headrace.controller.election import Elected, ElectionRules, Eligible
from headrace.controller.entries import PartitionState
from headrace.coordination.share.partition import Change, SharePartition
from headrace.coordination.share.runs import RunState
from headrace.log.producers.producer_state import ProducerStates
from headrace.log.segments.finding import SegmentFinder
from headrace.log.segments.segment import LOG_SUFFIX
from headrace.metadata.membership import BrokerMembership
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_BROKER
from simulation import scenario
from simulation.scenario import Outcome, run_seed
from simulation.world.disk import MountedFile

SEEDS_MAX = 60
# Long enough for a bug to do harm, short enough for the cluster to come to rest with it.
FAULT_SECONDS = 9.0
# With some of them it never does, and to wait for it takes most of the time; what was lost by then is known.
HEALING_SECONDS_MAX = 15.0

Plant = Callable[[pytest.MonkeyPatch], None]


def skip_the_epoch_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaders serve whoever asks, whatever epoch they believe in, and followers are never told where their logs part."""

    def require_leader(self: Partition, current_epoch: int = -1) -> None:
        self.require_online()
        if not self.is_leader:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    monkeypatch.setattr(Partition, "require_leader", require_leader)
    for module in (fetching, replica_sessions):
        monkeypatch.setattr(module, "divergence", lambda partition, wanted: None)


def acknowledge_before_the_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The high watermark follows the leader's own log."""
    monkeypatch.setattr(FollowedLeadership, "high_watermark", lambda self, local: local)


def forget_to_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncing a log does nothing."""
    sync = MountedFile.sync
    monkeypatch.setattr(MountedFile, "sync", lambda self: None if self.path.suffix == LOG_SUFFIX else sync(self))


def elect_outside_the_in_sync_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any replica that is alive may lead."""

    def elect(state: PartitionState, eligible: Eligible, rules: ElectionRules) -> Elected:
        if state.leader != -1 and eligible(state.leader):
            return Elected(state)
        for candidate in reversed(state.replicas):
            if eligible(candidate):
                return Elected(election._led_by(state, candidate, (candidate,), ()))
        return Elected(election._led_by_nobody(state))

    monkeypatch.setattr(election, "elect", elect)


def ignore_a_lost_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker believes in its place in the cluster for ever."""
    monkeypatch.setattr(BrokerMembership, "is_valid", property(lambda self: True))


def keep_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader goes on in the epoch of the one before."""

    def led_by(
        state: PartitionState, leader: int, isr: tuple[int, ...], elr: tuple[int, ...], **others: object
    ) -> PartitionState:
        return state.changed(leader=leader, isr=isr, elr=elr, last_known_leader=NO_BROKER)

    monkeypatch.setattr(election, "_led_by", led_by)


def forget_who_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a producer sends again is written again."""
    monkeypatch.setattr(ProducerStates, "check", lambda self, header, origin, guard=None: None)


def accept_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is written though the one before it did not arrive."""
    monkeypatch.setattr(ProducerStates, "_check_sequence", lambda self, header, state: None)


def end_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction is committed in one partition and aborted in the others."""
    write: Any = MarkerWriter.write

    async def by_halves(self: Any, end: Any, partitions: Any) -> Any:
        first, *others = partitions
        return {
            **await write(self, end, [first]),
            **(await write(self, replace(end, committed=False), others) if others else {}),
        }

    monkeypatch.setattr(MarkerWriter, "write", by_halves)


def forget_what_was_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers are not told which transactions did not commit."""
    monkeypatch.setattr(SegmentFinder, "aborted_transactions", lambda self, start, end: [])


def answer_before_it_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coordinators say that something is kept before the in-sync replicas have it."""
    monkeypatch.setattr(LedShard, "_hold_back", lambda self, replies, wrote: self._deliver(replies))


def keep_the_rights_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker goes by the rules that there were when it joined."""
    monkeypatch.setattr(AccessRules, "on_changes", lambda self, changes: None)


def keep_nothing_of_what_members_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of a share group hears that its word counts, and no share coordinator ever hears of it."""

    async def kept(self: LedSharePartition, change: Change) -> None:
        assert self._share is not None
        self._share.settle(change, written=True)

    monkeypatch.setattr(LedSharePartition, "_kept", kept)


def give_up_what_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that a member of a share group releases, or forgets, come to nobody again."""
    monkeypatch.setattr(SharePartition, "_free", lambda self, run: self._runs.turn(run, RunState.DONE))


LOSS = "lost write|was committed before|never committed"
# The rule that each breaks, and a seed that has found it: where that one does not any more, others are tried.
PLANTS: dict[Plant, tuple[str, int]] = {
    skip_the_epoch_check: (LOSS, 12),
    acknowledge_before_the_followers: (LOSS, 14),
    forget_to_sync: (LOSS, 5),
    elect_outside_the_in_sync_set: (LOSS, 7),
    ignore_a_lost_lease: (f"believes to lead|{LOSS}", 22),
    keep_the_epoch: (r"is led by \d and by \d in epoch", 1),
    forget_who_wrote: ("duplicate: ", 2),
    accept_gaps: ("disorder: ", 3),
    end_by_halves: ("torn transaction ", 0),
    forget_what_was_aborted: ("aborted transaction .* is visible", 0),
    answer_before_it_is_committed: ("committed offset gone back", 4),
    keep_the_rights_of_the_start: ("knows it otherwise", 7),
    keep_nothing_of_what_members_say: ("work done again: |queue-.* did not finish", 1),
    give_up_what_is_given_back: ("work never done: |queue-.* did not finish", 1),
}


def first_failure(seeds: Iterable[int], rule: str) -> tuple[Outcome, str] | None:
    for seed in seeds:
        outcome = run_seed(seed, fault_seconds=FAULT_SECONDS)
        for violation in outcome.violations:
            if re.search(rule, violation):
                return outcome, violation
    return None


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_simulation_finds_a_planted_bug(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(scenario, "HEALING_SECONDS_MAX", HEALING_SECONDS_MAX)
    rule, seed = PLANTS[plant]

    found = first_failure((seed, *range(SEEDS_MAX)), rule)

    assert found is not None, f"{SEEDS_MAX} seeds did not notice: {plant.__doc__}"
    print(f"{plant.__name__}: seed {found[0].seed}: {found[1][:200]}")
