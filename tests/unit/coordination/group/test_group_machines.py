"""Groups under random histories: members come, go, crash and fall silent, time passes, the coordinator crashes, writes fail.

Beside the coordinator stands a model: the members' own belief of what they own, and the offsets they were told are committed.
"""

import os
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.coordination.group.classic.state import ClassicGroup, ClassicState
from headrace.coordination.group.consumer.members import ConsumerGroup
from headrace.coordination.group.entries import ClassicGroupEntry, GroupEpochEntry
from headrace.coordination.group.settings import GroupSettings
from headrace.model.errors import ErrorCode, RequestError
from tests.unit.coordination.group.group_clients import PARTITIONS, TOPIC, TOPICS, ClassicClient, ConsumerClient
from tests.unit.coordination.group.group_driver import GROUP, Driver

SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=1_000,
    consumer_session_timeout_ms=10_000,
    new_member_join_timeout_ms=60_000,
)
SLOTS = 4


class Groups(RuleBasedStateMachine):
    """Four members of one group; which protocols they speak is drawn."""

    kinds: tuple[str, ...] = ("classic", "consumer", "static")

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(SETTINGS, TOPICS)
        self.clients: list[ClassicClient | ConsumerClient] = []
        self.offsets: dict[int, int] = {}
        self.epochs = (0, 0)
        self.generation = 0
        self.life = 0

    @initialize(data=st.data())
    def choose_members(self, data: st.DataObject) -> None:
        for number in range(SLOTS):
            kind = data.draw(st.sampled_from(self.kinds))
            name = f"m{number}"
            if kind == "consumer":
                self.clients.append(ConsumerClient(name, self.driver))
            else:
                self.clients.append(ClassicClient(name, self.driver, instance_id=name if kind == "static" else None))

    # --- what happens -----------------------------------------------------------------------------------------------------

    @rule(slot=st.integers(0, SLOTS - 1))
    def act(self, slot: int) -> None:
        self.clients[slot].step()

    @rule()
    def all_act(self) -> None:
        for client in self.clients:
            client.step()

    @rule(slot=st.integers(0, SLOTS - 1))
    def leave(self, slot: int) -> None:
        self.clients[slot].leave()

    @rule(slot=st.integers(0, SLOTS - 1))
    def crash(self, slot: int) -> None:
        self.clients[slot].crash()

    @rule(milliseconds=st.sampled_from([0, 500, 3_000, 9_000, 31_000]))
    def pass_time(self, milliseconds: int) -> None:
        self.driver.pass_time(milliseconds)

    @rule()
    def coordinator_crashes(self) -> None:
        fresh = self.driver.reloaded()
        self.driver.shard, self.driver.parked = fresh.shard, set()
        self.generation = 0
        for client in self.clients:
            client.on_coordinator_lost()

    @rule(fails=st.booleans())
    def disk_fails_or_recovers(self, fails: bool) -> None:
        self.driver.fails_to_write = fails

    @rule(slot=st.integers(0, SLOTS - 1), offset=st.integers(0, 9))
    def commit(self, slot: int, offset: int) -> None:
        client = self.clients[slot]
        epoch = client.generation if isinstance(client, ClassicClient) else client.epoch
        if not client.member_id or epoch <= 0 or not client.owned:
            return
        partition = min(client.owned)
        instance_id = client.instance_id if isinstance(client, ClassicClient) else None
        try:
            codes = self.driver.commit(
                offset, topic=TOPIC, partition=partition, member_id=client.member_id, generation=epoch, instance_id=instance_id
            )
        except RequestError:
            return
        assert codes == (ErrorCode.NONE,)
        self.offsets[partition] = offset

    # --- what always holds ------------------------------------------------------------------------------------------------

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = [partition for client in self.clients if client.counts_as_owner() for partition in client.owned]

        assert len(owned) == len(set(owned))

    @invariant()
    def every_parked_request_is_known_to_its_group(self) -> None:
        known: set[int] = set()
        for group in self.driver.shard.groups.values():
            if isinstance(group, ClassicGroup):
                tokens = {token for member in group.members.values() for token in (member.join_token, member.sync_token)}
                known |= {token for token in tokens if token is not None}

        assert known == self.driver.parked

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.driver.shard.groups.get(GROUP)
        life = self._life()
        if life != self.life:
            self.life, self.epochs, self.generation = life, (0, 0), 0
        if isinstance(group, ConsumerGroup):
            assert group.target_epoch <= group.epoch
            assert self.epochs <= (group.epoch, group.target_epoch)
            self.epochs = (group.epoch, group.target_epoch)
        elif group is not None:
            assert self.generation <= group.generation
            self.generation = group.generation

    def _life(self) -> int:
        """How often the group has been removed, to change its protocol for instance: then it counts from the beginning."""
        ends = (GroupEpochEntry(GROUP, None), ClassicGroupEntry(GROUP, None))
        return sum(item[0] in ends for item in self.driver.log)

    @invariant()
    def owners_are_those_who_hold(self) -> None:
        group = self.driver.shard.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        holders: dict[Any, dict[int, str]] = {}
        for member in group.members.values():
            for held in (member.assigned, member.revoking):
                for topic_id, partitions in held.items():
                    for partition in partitions:
                        assert partition not in holders.setdefault(topic_id, {}), "a partition is held twice"
                        holders[topic_id][partition] = member.member_id
        assert holders == group.owners

    @invariant()
    def committed_offsets_are_those_that_were_acknowledged(self) -> None:
        assert {partition: self.driver.committed(TOPIC, partition) for partition in self.offsets} == self.offsets

    @invariant()
    def a_group_at_rest_is_what_its_log_says(self) -> None:
        fresh = self.driver.reloaded().shard
        assert fresh.offsets._committed == self.driver.shard.offsets._committed
        group, logged = self.driver.shard.groups.get(GROUP), fresh.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            assert isinstance(logged, ConsumerGroup)
            assert durable(logged) == durable(group)
        elif group is not None and group.state is ClassicState.STABLE:
            assert isinstance(logged, ClassicGroup)
            assert classic_durable(logged) == classic_durable(group)

    def settle(self) -> None:
        """Everybody behaves from now on, the disk too."""
        self.driver.fails_to_write = False
        for _ in range(60):
            for client in self.clients:
                client.step()
            self.driver.pass_time(1_000)

    def teardown(self) -> None:
        if not self.clients:
            return
        self.settle()
        owned = sorted(partition for client in self.clients for partition in client.owned)
        assert owned == list(range(PARTITIONS)), f"after settling the partitions {owned} are owned"
        assert not self.driver.parked
        # Then all fall silent: the group must let them go.
        self.driver.pass_time(200_000)
        assert self.driver.state() in ("Empty", "gone")


def durable(group: ConsumerGroup) -> Any:
    return group.epoch, group.target_epoch, group.members, group.targets, group.owners, group.static_members, group.regexes


def classic_durable(group: ClassicGroup) -> Any:
    members = {
        member.member_id: (member.instance_id, member.assignment, member.session_timeout_ms) for member in group.members.values()
    }
    return group.generation, group.protocol, group.protocol_type, group.leader, members, group.static_members


class ClassicGroups(Groups):
    kinds = ("classic", "static")


class ConsumerGroups(Groups):
    kinds = ("consumer",)


# The same histories in every run; HEADRACE_GROUP_HISTORIES asks for that many others.
HISTORIES = int(os.environ.get("HEADRACE_GROUP_HISTORIES", "0"))
EXAMPLES = settings(
    max_examples=HISTORIES or 40,
    derandomize=not HISTORIES,
    stateful_step_count=40,
    deadline=None,
    report_multiple_bugs=False,
)

TestMixedGroups = pytest.mark.slow(Groups.TestCase)
TestMixedGroups.settings = EXAMPLES
TestClassicGroups = pytest.mark.slow(ClassicGroups.TestCase)
TestClassicGroups.settings = EXAMPLES
TestConsumerGroups = pytest.mark.slow(ConsumerGroups.TestCase)
TestConsumerGroups.settings = EXAMPLES
