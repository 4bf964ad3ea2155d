"""The shard against a model, under every order of requests, lost replies, failing partitions, broken writes and crashes.

What must hold: a transaction has one outcome, in all its partitions; a producer that was told "committed" is right; a fenced
producer never succeeds; a coordinator that replays its log knows what the old one knew, and finishes what it had begun.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.coordination.transaction.state import TransactionEntry, TransactionState
from headrace.model.errors import ErrorCode
from headrace.model.identity import ProducerIdentity, TopicPartition
from tests.unit.coordination.transaction.transaction_desk import BILLS, OFFSETS, ORDERS, TIMEOUT_MS, Desk

PARTITIONS = st.sets(st.sampled_from([ORDERS, BILLS, OFFSETS]), min_size=1)
FAILING = st.sampled_from([set(), set(), {ORDERS}, {BILLS, OFFSETS}, {ORDERS, BILLS, OFFSETS}])
NUMBERS = st.integers(0, 1)
SELDOM = st.sampled_from([False, False, False, True])


@dataclass
class Client:
    """One process that uses the transactional id; at most one of them is not a zombie."""

    version: int
    identity: tuple[int, int] | None = None
    # Partitions whose addition was acknowledged since the last end that the client knows of.
    added: set[TopicPartition] = field(default_factory=set)


class Transactions(RuleBasedStateMachine):
    """One transactional id, two processes."""

    @initialize(versions=st.tuples(st.sampled_from([0, 2]), st.sampled_from([0, 2])), aged=st.booleans())
    def begin(self, versions: tuple[int, ...], aged: bool) -> None:
        self.desk = Desk()
        self.clients = [Client(version) for version in versions]
        self.owner: Client | None = None
        if aged:
            self.desk.at_epoch(32764)

    @property
    def decisions(self) -> list[TransactionEntry]:
        return [entry for entry in self.desk.log if isinstance(entry, TransactionEntry) and entry.prepared]

    # --- requests

    @rule(number=NUMBERS, lost=SELDOM, bump=st.booleans())
    def initialize_producer(self, number: int, lost: bool, bump: bool) -> None:
        client = self.clients[number]
        before = self.desk.shard.get("t")
        answer = self.desk.init(expected=client.identity if bump else None)
        if answer is None:
            return
        if answer.error == ErrorCode.NONE:
            if bump and client.identity is not None and client is not self.owner:
                # Allowed only as the repetition of a call whose reply was lost: nobody else may have come between.
                assert self.owner is None, "a fenced producer went on"
            self.owner = None if lost else client
            if not lost:
                client.identity, client.added = (answer.producer_id, answer.producer_epoch), set()
        elif (
            before is not None and before.state is TransactionState.ONGOING and answer.error == ErrorCode.CONCURRENT_TRANSACTIONS
        ):
            self.owner = None

    @rule(number=NUMBERS, partitions=PARTITIONS, lost=SELDOM)
    def add_partitions(self, number: int, partitions: set[TopicPartition], lost: bool) -> None:
        client = self.clients[number]
        if client.identity is None or self.desk.log_broken:
            return
        error = self.desk.add(client.identity, *partitions, version=client.version)
        assert error != ErrorCode.NONE or client is self.owner, "a fenced producer added partitions"
        if error == ErrorCode.NONE and not lost:
            client.added |= partitions

    @rule(number=NUMBERS, committed=st.booleans(), lost=SELDOM)
    def end(self, number: int, committed: bool, lost: bool) -> None:
        client = self.clients[number]
        if client.identity is None:
            return
        count = len(self.decisions)
        answer = self.desk.end(client.identity, committed=committed, version=client.version)
        if answer is None:
            return
        if len(self.decisions) > count:
            assert client is self.owner, "a fenced producer ended a transaction"
        if answer.error == ErrorCode.NONE and not lost:
            self.told(client, committed, answer)

    @rule(number=NUMBERS, added=st.lists(PARTITIONS, max_size=2), committed=st.booleans(), failing=FAILING)
    def run_a_transaction(
        self, number: int, added: list[set[TopicPartition]], committed: bool, failing: set[TopicPartition]
    ) -> None:
        """The usual course, so that stories get beyond their beginning."""
        self.desk.log_broken = False
        if self.clients[number] is not self.owner:
            self.initialize_producer(number=number, lost=False, bump=False)
        for partitions in added:
            self.add_partitions(number=number, partitions=partitions, lost=False)
        self.end(number=number, committed=committed, lost=False)
        self.write_markers(failing=failing)

    def told(self, client: Client, committed: bool, answer: Any) -> None:
        """The client believes what it hears: so it must be true."""
        assert client.identity is not None
        producer_id, epoch = client.identity
        marker = ProducerIdentity(producer_id, epoch + (client.version == 2))
        own = [decision for decision in self.decisions if decision.identity == marker]
        assert own, "the outcome stands in the log"
        assert (own[-1].state is TransactionState.PREPARE_COMMIT) == committed
        if committed:
            assert own[-1].partitions >= client.added, "what was acknowledged is part of what was committed"
        if client.version == 2:
            assert self.owner in (None, client), "a fenced producer was given the identity of another"
            client.identity = (answer.producer_id, answer.producer_epoch)
            self.owner = client
        client.added = set()

    # --- the world

    @rule(failing=FAILING)
    def write_markers(self, failing: set[TopicPartition]) -> None:
        self.desk.failing = failing
        self.desk.now_ms += 200
        self.desk.write_markers()

    @rule(failing=FAILING)
    def crash_while_markers_are_on_their_way(self, failing: set[TopicPartition]) -> None:
        self.desk.failing = failing
        self.desk.now_ms += 200
        for marker in self.desk.take_markers():
            self.desk.deliver(marker)
        self.desk.restart()

    @rule()
    def crash(self) -> None:
        before = list(self.desk.shard)
        self.desk.restart()

        assert sorted(before, key=repr) == sorted(self.desk.shard, key=repr)

    @rule()
    def let_the_timeout_pass(self) -> None:
        self.desk.log_broken = False
        before = self.desk.shard.get("t")
        self.desk.pass_time(TIMEOUT_MS + 1)
        if before is not None and before.state is TransactionState.ONGOING:
            self.owner = None

    @precondition(lambda self: not self.desk.log_broken)
    @rule()
    def break_the_log(self) -> None:
        self.desk.log_broken = True

    @precondition(lambda self: self.desk.log_broken)
    @rule()
    def mend_the_log(self) -> None:
        self.desk.log_broken = False

    # --- what always holds

    @invariant()
    def every_marker_says_what_was_decided(self) -> None:
        if not hasattr(self, "desk"):
            return
        for partition, written in self.desk.written.items():
            for identity, committed in written:
                assert any(
                    decision.identity == identity and decision.committing == committed and partition in decision.partitions
                    for decision in self.decisions
                )

    @invariant()
    def epochs_never_fall_and_tables_are_kept(self) -> None:
        if not hasattr(self, "desk"):
            return
        epochs: dict[int, int] = {}
        for entry in self.desk.log:
            assert isinstance(entry, TransactionEntry)
            assert entry.producer_epoch >= epochs.get(entry.producer_id, -1)
            epochs[entry.producer_id] = entry.producer_epoch

    def teardown(self) -> None:
        """Whatever state the story ended in, a coordinator that starts now brings every transaction to its end."""
        if not hasattr(self, "desk"):
            return
        desk = self.desk
        desk.failing, desk.log_broken = set(), False
        desk.restart()
        for _ in range(3):
            desk.pass_time(TIMEOUT_MS + 1)
            desk.write_markers()
        found = desk.shard.get("t")
        assert found is None or found.state not in (
            TransactionState.ONGOING,
            TransactionState.PREPARE_ABORT,
            TransactionState.PREPARE_COMMIT,
        )
        for decision in self.decisions:
            for partition in decision.partitions:
                assert (decision.identity, decision.committing) in desk.written[partition]
                if decision.client_version == 2:
                    assert (decision.identity, not decision.committing) not in desk.written[partition]


Transactions.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestTransactions = pytest.mark.slow(Transactions.TestCase)
