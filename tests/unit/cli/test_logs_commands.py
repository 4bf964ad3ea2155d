"""`headrace logs level`: the loggers of running brokers, shown and changed."""

import json
import logging
from collections.abc import Callable, Iterator

import pytest

from tests.unit.cli.conftest import Outcome

Command = Callable[..., Outcome]
LOGGER = "headrace.broker.housekeeping"


@pytest.fixture(autouse=True)
def level_as_before() -> Iterator[None]:
    """The broker runs in this process: its loggers are ours."""
    before = logging.getLogger(LOGGER).level
    yield
    logging.getLogger(LOGGER).setLevel(before)


def test_a_level_is_shown_changed_and_taken_back(client: Command) -> None:
    def shown() -> str:
        (found,) = [each for each in json.loads(client("logs", "level", LOGGER, "--json").output) if each["logger"] == LOGGER]
        return str(found["level"])

    before = shown()
    outcome = client("logs", "level", LOGGER, "debug")
    assert outcome.code == 0, outcome.remarks
    assert f"{LOGGER} is now at debug on broker 1." in outcome.remarks
    assert shown() == "DEBUG"

    assert client("logs", "level", LOGGER, "default").code == 0
    assert shown() == before


def test_a_logger_or_a_level_that_does_not_exist_is_named(client: Command) -> None:
    nobody = client("logs", "level", "headrace.nobody", "DEBUG")
    loud = client("logs", "level", LOGGER, "LOUD")

    assert (nobody.code, loud.code) == (1, 1)
    assert "There is no logger headrace.nobody" in nobody.remarks
    assert "the log levels are" in loud.remarks


def test_only_one_broker_may_be_asked(client: Command) -> None:
    rows = json.loads(client("logs", "level", "--broker", "1", "--json").output)

    assert {row["broker"] for row in rows} == {1}
    assert "root" in {row["logger"] for row in rows}
