"""A broker that shows its metrics at any port, for each module that looks at some of them."""

from collections.abc import Iterator

import pytest

from headrace.testing import Broker
from tests.support.metrics import AT_ANY_PORT
from tests.support.raw import RawClient, ask_until_created


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=AT_ANY_PORT) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap) as client:
        yield client


@pytest.fixture
def topic(client: RawClient, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)[:80]
    ask_until_created(client, name)
    return name
