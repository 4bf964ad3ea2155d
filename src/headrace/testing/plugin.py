"""Fixtures for anyone's tests.  Installed with Headrace, they are there without a line of configuration.

    def test_orders_are_counted(headrace_broker, headrace_topic):
        with Producer(headrace_broker.bootstrap) as producer:
            producer.send(headrace_topic, "an order")

Nothing of Headrace is imported before a test asks for a fixture.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headrace.testing.broker import Broker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "headrace(partitions=1, settings=None, broker=None): the headrace_topic of a test, and its broker's settings"
    )


@pytest.fixture
def headrace_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker of the test's own, in memory: it starts in milliseconds, and `faults` and `clock` are its own too."""
    from headrace.testing.broker import Broker

    with Broker(settings=_marked(request).get("broker")) as broker:
        yield broker


@pytest.fixture
def headrace_topic(request: pytest.FixtureRequest, headrace_broker: Broker) -> str:
    """The name of a fresh topic; `@pytest.mark.headrace(partitions=3)` says more about it."""
    from headrace import Admin

    options = {option: value for option, value in _marked(request).items() if option != "broker"}
    name = f"test-{uuid.uuid4().hex[:12]}"
    with Admin(headrace_broker.bootstrap) as admin:
        admin.create_topic(name, **options)
    return name


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker("headrace")
    given = dict(marker.kwargs) if marker else {}
    if unknown := (marker.args if marker else ()) or sorted(given.keys() - {"partitions", "settings", "broker"}):
        raise pytest.UsageError(f"@pytest.mark.headrace does not take {unknown[0]!r}; it takes partitions=, settings=, broker=")
    return given
