"""What type checkers are told is so."""

import asyncio
import inspect
from typing import Any

import pytest

from headrace import Admin, Consumer, Producer, Queue
from headrace.client import options
from headrace.client.security.options import SecurityOptions
from headrace.testing import Broker
from tests.unit.client import typed_program


@pytest.mark.parametrize(
    ("declared", "call", "spelt_out"),
    [
        (options.SendOptions, Producer.send, {"topic", "value"}),
        (options.ProducerOptions, Producer.__init__, {"bootstrap", "when_full"}),
        (options.ConsumerOptions, Consumer.__init__, {"topics", "bootstrap", "keys", "values"}),
        (options.AdminOptions, Admin.__init__, {"bootstrap"}),
        (options.QueueOptions, Queue.__init__, {"topic", "group", "bootstrap", "keys", "values"}),
        (options.PutOptions, Queue.put, {"value"}),
        (options.TopicOptions, Admin.create_topic, {"name"}),
    ],
)
def test_options_that_are_passed_on_are_those_of_the_call(declared: Any, call: Any, spelt_out: set[str]) -> None:
    parameters = {name: each for name, each in inspect.signature(call).parameters.items() if name not in {"self", *spelt_out}}
    passed_on = dict(declared.__annotations__)
    if "security" in parameters:
        assert parameters.pop("security").annotation == "Unpack[SecurityOptions]"
        for name, each in SecurityOptions.__annotations__.items():
            assert passed_on.pop(name) == each

    assert {name: each.__forward_arg__ for name, each in passed_on.items()} == {
        name: each.annotation for name, each in parameters.items()
    }


def test_the_typed_program_runs() -> None:
    with Broker() as broker:
        typed_program.send(broker.bootstrap)
        typed_program.read(broker.bootstrap)
        typed_program.push(broker.bootstrap)
        typed_program.book(broker.bootstrap)
        asyncio.run(typed_program.on_a_loop(broker.bootstrap))
        typed_program.look(broker)
