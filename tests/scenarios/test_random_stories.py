"""Random stories of the same words: whatever happens in whatever order, nothing acknowledged is lost and replicas agree.

The model checks after every command that each broker that could be elected holds every acknowledged record.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.controller.election import ElectionRules
from headrace.model.errors import RequestError
from headrace.model.identity import NO_BROKER
from tests.scenarios.model_cluster import ModelCluster

ANY = st.integers(0, 5)
# What happens all the time comes up more often than what happens now and then.
STEPS = {
    "append": 4,
    "fetch": 5,
    "lost fetch": 1,
    "learn": 2,
    "wait": 1,
    "propose": 2,
    "commit": 2,
    "lose answer": 1,
    "isolate": 1,
    "cut off": 1,
    "heal": 1,
    "lost": 1,
    "kill": 1,
    "die": 1,
    "return": 3,
    "stop": 1,
    "resign": 1,
    "damage": 1,
    "mend": 1,
    "power": 1,
    "settle": 2,
    "balance": 1,
    "reassign": 1,
    "cancel": 1,
}
STEP = st.tuples(st.sampled_from([step for step, weight in STEPS.items() for _ in range(weight)]), ANY)
# Short stories are all alike: it takes several elections for something to go wrong.
STORY = st.lists(STEP, min_size=30, max_size=80)
# Where replicas move to: away, to another leader, to a broker that was never one, and back.
TARGETS = ("1,2", "2,3", "3,1,2", "4,2,3", "1,4", "1,2,3")
SECONDS = (1, 11)


class Story:
    """Turns steps into commands that make sense where they happen: a number stands for one of those who could do it."""

    def __init__(self, rules: ElectionRules) -> None:
        self.cluster = ModelCluster(3, 1, rules)
        self.values = 0

    def tell(self, step: str, number: int) -> None:
        match step:
            case "append":
                self._append(number)
            case "propose" | "commit" | "lose answer":
                self._in_sync(step, number)
            case "damage" | "resign" | "mend":
                self._disk(step, number)
            case "wait":
                self._run(f"wait {SECONDS[number % len(SECONDS)]}")
            case "reassign":
                self._run(f"reassign {TARGETS[number]}")
            case "heal" | "settle" | "power" | "balance" | "cancel":
                self._run(step)
            case _:
                self._to_a_broker(step, number)

    def _append(self, number: int) -> None:
        leaders = [member.broker_id for member in self.cluster.members.values() if member.leading is not None]
        if leaders:
            self.values += 1
            self._run(f"append {leaders[number % len(leaders)]} v{self.values}")

    def _to_a_broker(self, step: str, number: int) -> None:
        cluster = self.cluster
        member = list(cluster.members.values())[number % len(cluster.members)]
        broker, is_connected = member.broker_id, member.broker_id not in cluster.isolated
        match step:
            case "fetch":
                self._run(f"fetch {broker}")
            case "lost fetch":
                self._run(f"fetch {broker} cut")
            case "isolate":
                self._run(f"isolate {broker}")
            case "cut off" if broker in cluster.admitted:
                self._run(f"isolate {broker}")
                self._run(f"lost {broker}")
            case "die" if member.alive and broker in cluster.admitted:
                self._run(f"kill {broker}")
                self._run(f"lost {broker}")
            case "learn" if member.alive and is_connected:
                self._run(f"learn {broker}")
            case "lost" | "stop" if broker in cluster.admitted:
                self._run(f"{step} {broker}")
            case "kill" if member.alive:
                self._run(f"kill {broker}")
            case "return" if broker not in cluster.admitted and is_connected:
                self._run(f"return {broker}")

    def _in_sync(self, step: str, number: int) -> None:
        leaders = [
            member.broker_id
            for member in self.cluster.members.values()
            if member.leading is not None
            and member.broker_id not in self.cluster.isolated
            and (member.leading.proposed is None) == (step == "propose")
        ]
        if leaders:
            self._run(f"{step.replace(' ', '-')} {leaders[number % len(leaders)]}")

    def _disk(self, step: str, number: int) -> None:
        cluster = self.cluster
        member = list(cluster.members.values())[number % len(cluster.members)]
        broker = member.broker_id
        if not member.alive or broker in cluster.isolated:
            return
        if step == "mend" and member.damaged_from is not None and member.offline:
            self._run(f"mend {broker}")
        elif step == "resign" and not member.offline and broker in cluster.admitted:
            self._run(f"resign {broker}")
        elif step == "damage" and not member.offline and member.leading is not None and broker in cluster.admitted:
            self._run(f"damage {broker} {len(member.log) // 2}")

    def _run(self, command: str) -> None:
        try:
            self.cluster.run(command)
        except RequestError:
            return

    def end_well(self) -> None:
        """Everybody comes back, one after the other, and the cluster comes to rest."""
        self._run("heal")
        for broker in list(self.cluster.members):
            if broker in self.cluster.admitted:
                self._run(f"kill {broker}")
                self._run(f"lost {broker}")
            self._run(f"return {broker}")
        self._run("settle")


@settings(max_examples=300)
@given(steps=STORY, minimum=st.integers(1, 3))
def test_nothing_acknowledged_is_lost_and_all_replicas_agree_in_the_end(steps: list[tuple[str, int]], minimum: int) -> None:
    tell_and_check(steps, minimum)


def tell_and_check(steps: list[tuple[str, int]], minimum: int) -> None:
    story = Story(ElectionRules(min_insync_replicas=minimum))
    for step, number in steps:
        story.tell(step, number)
    story.end_well()
    logs = [story.cluster.members[replica].log for replica in story.cluster.stored.replicas]

    assert story.cluster.stored.leader != NO_BROKER
    assert all(log == logs[0] for log in logs)
    values = [value for value, _ in logs[0]]
    assert set(story.cluster.acknowledged) <= set(values)
    assert len(values) == len(set(values))
    assert values == sorted(values, key=lambda value: int(value[1:]))


@settings(max_examples=60)
@given(steps=STORY)
def test_after_unclean_elections_replicas_still_agree_in_the_end(steps: list[tuple[str, int]]) -> None:
    story = Story(ElectionRules(min_insync_replicas=1, unclean_allowed=True, flushed_before_ack=False))
    for step, number in steps:
        story.tell(step, number)
    story.end_well()
    logs = [story.cluster.members[replica].log for replica in story.cluster.stored.replicas]

    assert all(log == logs[0] for log in logs)
