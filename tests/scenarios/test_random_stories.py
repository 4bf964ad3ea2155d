"""Random stories of the same words: whatever happens in whatever order, nothing acknowledged is lost and replicas agree.

The model checks after every command that each broker that could be elected holds every acknowledged record.
"""

import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from model_cluster import ModelCluster

from headrace.controller.election import ElectionRules
from headrace.model.errors import RequestError
from headrace.model.identity import NO_BROKER

BROKER = st.integers(1, 3)
STEP = st.one_of(
    st.tuples(st.just("append"), BROKER),
    st.tuples(st.just("fetch"), BROKER),
    st.tuples(st.just("lost fetch"), BROKER),
    st.tuples(st.just("learn"), BROKER),
    st.tuples(st.just("wait"), st.sampled_from([1, 11])),
    st.tuples(st.just("propose"), BROKER),
    st.tuples(st.just("commit"), BROKER),
    st.tuples(st.just("lose answer"), BROKER),
    st.tuples(st.just("isolate"), BROKER),
    st.tuples(st.just("heal"), st.just(0)),
    st.tuples(st.just("lost"), BROKER),
    st.tuples(st.just("kill"), BROKER),
    st.tuples(st.just("return"), BROKER),
    st.tuples(st.just("stop"), BROKER),
    st.tuples(st.just("resign"), BROKER),
    st.tuples(st.just("damage"), BROKER),
    st.tuples(st.just("mend"), BROKER),
    st.tuples(st.just("power"), st.just(0)),
    st.tuples(st.just("settle"), st.just(0)),
    st.tuples(st.just("balance"), st.just(0)),
)


class Story:
    """Turns steps into commands that make sense where they happen."""

    def __init__(self, rules: ElectionRules) -> None:
        self.cluster = ModelCluster(3, 1, rules)
        self.values = 0

    def tell(self, step: str, broker: int) -> None:
        cluster = self.cluster
        member = cluster.members.get(broker)
        match step:
            case "append":
                self.values += 1
                self._run(f"append {broker} v{self.values}")
            case "fetch":
                self._run(f"fetch {broker}")
            case "lost fetch":
                self._run(f"fetch {broker} cut")
            case "propose" | "commit" | "lose answer":
                self._in_sync(step, broker)
            case "learn" if member is not None and member.alive and broker not in cluster.isolated:
                self._run(f"learn {broker}")
            case "lost" | "stop" if broker in cluster.admitted:
                self._run(f"{step} {broker}")
            case "kill" if member is not None and member.alive:
                self._run(f"kill {broker}")
            case "return" if broker not in cluster.admitted and broker not in cluster.isolated:
                self._run(f"return {broker}")
            case "damage" | "resign" | "mend" if member is not None and member.alive and broker not in cluster.isolated:
                self._disk(step, broker)
            case "wait" | "isolate":
                self._run(f"{step} {broker}")
            case "heal" | "settle" | "power" | "balance":
                self._run(step)

    def _in_sync(self, step: str, broker: int) -> None:
        leading = self.cluster.members[broker].leading
        if leading is None or broker in self.cluster.isolated or (leading.proposed is None) != (step == "propose"):
            return
        self._run(f"{step.replace(' ', '-')} {broker}")

    def _disk(self, step: str, broker: int) -> None:
        member = self.cluster.members[broker]
        if step == "mend" and member.damaged_from is not None and member.offline:
            self._run(f"mend {broker}")
        elif step == "resign" and not member.offline and broker in self.cluster.admitted:
            self._run(f"resign {broker}")
        elif step == "damage" and not member.offline and member.leading is not None and broker in self.cluster.admitted:
            self._run(f"damage {broker} {len(member.log) // 2}")

    def _run(self, command: str) -> None:
        try:
            self.cluster.run(command)
        except RequestError:
            return

    def end_well(self) -> None:
        """Everybody comes back, one after the other, and the cluster comes to rest."""
        self._run("heal")
        for broker in self.cluster.members:
            if broker in self.cluster.admitted:
                self._run(f"kill {broker}")
                self._run(f"lost {broker}")
            self._run(f"return {broker}")
        self._run("settle")


@settings(max_examples=250)
@given(steps=st.lists(STEP, max_size=60), minimum=st.integers(1, 3))
def test_nothing_acknowledged_is_lost_and_all_replicas_agree_in_the_end(steps: list[tuple[str, int]], minimum: int) -> None:
    story = Story(ElectionRules(min_insync_replicas=minimum))
    for step, broker in steps:
        story.tell(step, broker)
    story.end_well()
    logs = [member.log for member in story.cluster.members.values()]

    assert story.cluster.stored.leader != NO_BROKER
    assert logs[0] == logs[1] == logs[2]
    values = [value for value, _ in logs[0]]
    assert set(story.cluster.acknowledged) <= set(values)
    assert len(values) == len(set(values))
    assert values == sorted(values, key=lambda value: int(value[1:]))


@settings(max_examples=100)
@given(steps=st.lists(STEP, max_size=60))
def test_after_unclean_elections_replicas_still_agree_in_the_end(steps: list[tuple[str, int]]) -> None:
    story = Story(ElectionRules(min_insync_replicas=1, unclean_allowed=True, flushed_before_ack=False))
    for step, broker in steps:
        story.tell(step, broker)
    story.end_well()
    logs = [member.log for member in story.cluster.members.values()]

    assert logs[0] == logs[1] == logs[2]
