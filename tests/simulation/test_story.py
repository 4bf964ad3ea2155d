"""The story of a run is told so that a person can follow it."""

import subprocess
import sys

from headrace.model.identity import TopicPartition
from simulation.many_seeds import judged
from simulation.plan import Plan
from simulation.rules.history import Acknowledged, History, Sent
from simulation.scenario import Outcome
from simulation.storytelling import about, evidence, plot, summary
from simulation.world.loop import SimulatedLoop
from simulation.world.machine import Machine

PARTITION, OTHER = TopicPartition("events", 1), TopicPartition("events", 11)


def told(violations: list[str]) -> Outcome:
    history = History(SimulatedLoop(0))
    client = Machine("producer-1")
    history.tell("starts", "broker-1")
    for number in range(1, 31):
        partition = OTHER if number == 22 else PARTITION
        sent = Sent(producer="producer-1", partition=partition, value=f"producer-1/{number}")
        client.context().run(history.record, sent)
    last = Acknowledged(producer="producer-1", partition=PARTITION, value="producer-1/2", offset=7, broker=1)
    client.context().run(history.record, last)
    history.tell("loses its power", "broker-1")
    return Outcome(5, Plan(), history, violations)


def test_the_plot_is_what_happened_to_the_cluster_with_the_clients_in_between() -> None:
    lines = list(plot(told([]).history.story))

    assert [line.split(maxsplit=2)[-1] for line in lines if "broker" in line] == ["starts", "loses its power"]
    assert lines[1].split() == ["clients", "30", "records", "sent,", "1", "acknowledgements"]


def test_what_is_told_about_a_record_or_a_partition_is_about_no_other() -> None:
    story = told([]).history.story

    assert [line.split(maxsplit=2)[2] for line in about(story, "producer-1/2")] == [
        "sends producer-1/2 to events-1",
        "hears from broker 1 that producer-1/2 is at events-1@7",
    ]
    assert len(about(story, "events-11")) == 1
    assert len(about(story, "events-1")) == 30


def test_a_broken_rule_comes_with_the_story_of_what_it_names() -> None:
    outcome = told(["lost write: producer-1/2, acknowledged by 1 at events-1@7; there is None"] * 3)

    lines = list(evidence(outcome))

    assert lines[0].strip() == "the story of producer-1/2:"
    assert len(lines) == 3
    assert summary(outcome).endswith("there is None (3 times)")


def test_the_command_runs_seeds_in_several_processes() -> None:
    command = [sys.executable, "-m", "simulation", "--count", "2", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)

    assert "2 seeds in " in done.stdout


def test_seeds_that_are_run_by_several_processes_are_told_in_order() -> None:
    assert [(verdict.seed, verdict.report) for verdict in judged(range(2), jobs=2)] == [(0, None), (1, None)]
