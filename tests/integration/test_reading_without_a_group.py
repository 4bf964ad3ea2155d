"""Whoever reads without a group needs the right to read the topic, and no right on groups."""

import pytest
from confluent_kafka import Producer

from headrace import Consumer
from headrace.cli.main import run
from headrace.testing import Broker


def test_reading_alone_needs_no_right_on_groups_and_is_denied_nothing(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    settings = {"authorizer": "acl", "super.users": "User:root"}
    with Broker(users={"root": "secret", "ann": "hidden"}, settings=settings) as broker:
        producer = Producer(broker.client_config("root"))
        for number in range(3):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(30) == 0
        assert run(["acl", "allow", "-u", "ann", "--read", "orders", "--profile", str(broker.profile("root"))]) == 0

        with Consumer("orders", values=str, profile=str(broker.profile("ann"))) as consumer:
            assert [record.value for record in consumer.to_end()] == ["0", "1", "2"]
        capfdbinary.readouterr()
        assert run(["consume", "orders", "--profile", str(broker.profile("ann"))]) == 0
        assert capfdbinary.readouterr().out == b"0\n1\n2\n"
        denied = broker.run(lambda real: dict(real.parts.figures.security.denials))

        assert {kind for _, kind in denied} <= {"CLUSTER"}, "nobody asked for a group"
