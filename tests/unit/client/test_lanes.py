"""Lanes: order within, freedom between."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.push.lanes import Lanes


def test_a_lane_gives_its_tasks_one_after_the_other() -> None:
    lanes: Lanes[str] = Lanes()
    lanes.add("a", "a1")
    lanes.add("a", "a2")

    assert lanes.take(0) == ("a", "a1")
    assert lanes.take(0) is None
    lanes.done("a")
    assert lanes.take(0) == ("a", "a2")


def test_lanes_do_not_wait_for_each_other() -> None:
    lanes: Lanes[str] = Lanes()
    lanes.add("a", "a1")
    lanes.add("b", "b1")

    assert lanes.take(0) == ("a", "a1")
    assert lanes.take(0) == ("b", "b1")


def test_a_delayed_task_holds_back_its_own_lane_only() -> None:
    lanes: Lanes[str] = Lanes()
    for lane, task in (("a", "a1"), ("a", "a2"), ("b", "b1")):
        lanes.add(lane, task)
    lanes.take(0)
    lanes.delay("a", until=10)

    assert lanes.next_due() == 10
    assert lanes.take(1) == ("b", "b1")
    assert lanes.take(9.9) is None
    assert lanes.take(10) == ("a", "a1")


def test_dropping_forgets_what_has_not_started_and_leaves_what_runs() -> None:
    lanes: Lanes[str] = Lanes()
    for lane, task in (("a", "x1"), ("a", "x2"), ("a", "y3"), ("b", "x4")):
        lanes.add(lane, task)
    lanes.take(0)

    lanes.drop(lambda task: task.startswith("x"))

    assert len(lanes) == 2
    assert lanes.out() == ["x1"]
    lanes.done("a")
    assert lanes.take(0) == ("a", "y3")


def test_a_lane_that_was_dropped_while_delayed_starts_afresh() -> None:
    lanes: Lanes[str] = Lanes()
    lanes.add("a", "old")
    lanes.take(0)
    lanes.delay("a", until=5)
    lanes.drop(lambda task: True)
    lanes.add("a", "new")

    assert lanes.take(0) == ("a", "new")
    assert lanes.take(5) is None
    lanes.done("a")
    assert len(lanes) == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "take", "done", "delay", "drop"])), max_size=200))
def test_whatever_happens_each_lane_is_in_order_and_out_once(steps: list[tuple[str, str]]) -> None:
    lanes: Lanes[tuple[str, int]] = Lanes()
    expected: dict[str, list[tuple[str, int]]] = {"a": [], "b": [], "c": []}
    out: dict[str, tuple[str, int]] = {}
    for now, (lane, action) in enumerate(steps):
        if action == "add":
            expected[lane].append((lane, now))
            lanes.add(lane, (lane, now))
        elif action == "take" and (taken := lanes.take(now)) is not None:
            name = str(taken[0])
            assert name not in out
            assert taken[1] == expected[name][0]
            out[name] = taken[1]
        elif action == "done" and lane in out:
            lanes.done(lane)
            assert expected[lane].pop(0) == out.pop(lane)
        elif action == "delay" and lane in out:
            lanes.delay(lane, until=now + 3)
            del out[lane]
        elif action == "drop":
            lanes.drop(lambda task, lane=lane: task[0] == lane)  # type: ignore[misc]
            expected[lane] = expected[lane][:1] if lane in out else []
        assert len(lanes) == sum(map(len, expected.values()))
        assert sorted(lanes.out()) == sorted(out.values())
    finished = 0
    left = sum(map(len, expected.values()))
    for lane in list(out):
        lanes.done(lane)
        finished += 1
    while (taken := lanes.take(10_000)) is not None:
        lanes.done(taken[0])
        finished += 1
    assert finished == left
