"""Fixtures for every test that talks to a broker.

`HEADRACE_TEST_BOOTSTRAP=host:port` runs the same tests against a broker that is already there, such as Apache Kafka.
`HYPOTHESIS_PROFILE=explore` makes the property tests try examples they did not try before.
"""

import os
import uuid
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

# The same examples each time, and no limit on how long one takes: a machine that is busy is not a bug.
hypothesis.settings.register_profile("same", deadline=None, database=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

EXTERNAL_BOOTSTRAP = os.environ.get("HEADRACE_TEST_BOOTSTRAP")


@pytest.fixture(scope="session")
def broker() -> Iterator[Any]:
    """A real broker in this process with its log in memory, shared by a session's tests: they use topics of their own."""
    if EXTERNAL_BOOTSTRAP:
        pytest.skip("this test needs a broker of its own, and HEADRACE_TEST_BOOTSTRAP names another")
    from headrace.testing import Broker

    with Broker(memory=True) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where the broker listens."""
    return EXTERNAL_BOOTSTRAP or str(request.getfixturevalue("broker").bootstrap)


@pytest.fixture
def topic() -> str:
    """A topic name no other test uses.  The topic itself is not created."""
    return f"t-{uuid.uuid4().hex[:12]}"


LONGEST = ("tests/spark/", "tests/cluster/", "tests/integration/test_cluster", "tests/compat/test_groups_churn")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What keeps one worker busy for minutes begins first, so that nobody waits for it in the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
