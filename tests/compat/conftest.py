"""Other people's clients."""

import pytest


@pytest.fixture(autouse=True)
def _nothing_is_left_to_later_tests(foreign_garbage: None) -> None:
    """What they leave is collected."""
