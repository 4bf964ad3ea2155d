"""Bugs put in on purpose: each must be found within a bounded number of seeds, or the simulation is not worth its time."""

from collections.abc import Callable

import pytest

from headrace.broker import replica_sessions
from headrace.broker.handlers import fetch
from headrace.broker.leadership import FollowedLeadership
from headrace.broker.partition import Partition
from headrace.controller import election
from headrace.controller.election import Elected, ElectionRules, Eligible
from headrace.controller.entries import PartitionState
from headrace.metadata.membership import BrokerMembership
from headrace.model.errors import ErrorCode, RequestError
from headrace.testing.simulation.disk import MountedFile
from headrace.testing.simulation.scenario import Outcome, run_seed

SEEDS_MAX = 60

Plant = Callable[[pytest.MonkeyPatch], None]


def skip_the_epoch_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaders serve whoever asks, whatever epoch they believe in, and followers are never told where their logs part."""

    def require_leader(self: Partition, current_epoch: int = -1) -> None:
        self.require_online()
        if not self.is_leader:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    monkeypatch.setattr(Partition, "require_leader", require_leader)
    for module in (fetch, replica_sessions):
        monkeypatch.setattr(module, "divergence", lambda partition, wanted: None)


def acknowledge_before_the_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The high watermark follows the leader's own log."""
    monkeypatch.setattr(FollowedLeadership, "high_watermark", lambda self, local: local)


def forget_to_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncing a file does nothing."""
    monkeypatch.setattr(MountedFile, "sync", lambda self: None)


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


PLANTS: list[Plant] = [
    skip_the_epoch_check,
    acknowledge_before_the_followers,
    forget_to_sync,
    elect_outside_the_in_sync_set,
    ignore_a_lost_lease,
]


def first_failure(seeds: range) -> Outcome | None:
    return next((outcome for seed in seeds if (outcome := run_seed(seed)).violations), None)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_simulation_finds_a_planted_bug(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    found = first_failure(range(SEEDS_MAX))

    assert found is not None, f"{SEEDS_MAX} seeds did not notice: {plant.__doc__}"
    print(f"{plant.__name__}: seed {found.seed}: {found.violations[0]}")
