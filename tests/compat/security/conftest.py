"""One closed broker for all clients of a process."""

from collections.abc import Iterator

import pytest

from tests.compat.security.stage import MINE, Stage, secured


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with secured(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture
def topic(topic: str) -> str:
    """One that is ann's."""
    return f"{MINE}{topic}"
