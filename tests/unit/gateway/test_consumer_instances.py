"""Instances of Confluent's REST v2: how many there may be, and for how long."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.gateway.confluent.consumers_v2 import Instance, Instances
from headrace.gateway.serving.problems import Problem
from headrace.gateway.settings import Limits


def test_an_instance_that_never_subscribes_makes_room_after_a_while() -> None:
    gateway: Any = SimpleNamespace(settings=SimpleNamespace(limits=Limits(members_max=2, member_idle_seconds=60)))
    instances, made = Instances(), [Instance("ann", "json", "latest", True) for _ in range(4)]
    for number in range(2):
        instances.add("g", str(number), made[number], gateway)
    with pytest.raises(Problem, match="as many instances"):
        instances.add("g", "2", made[2], gateway)
    made[0].made_at -= 61

    instances.add("g", "3", made[3], gateway)
