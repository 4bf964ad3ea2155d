"""The broker's loggers: their levels are read and changed while it runs (KIP-412)."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.broker.network import dispatch
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.alter_configs import AlterConfigsRequest
from headrace.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.raw import RawClient

BROKER_LOGGER = 8
OF_A_LOGGER = 6
SET, DELETE, APPEND = 0, 1, 2
DISPATCH = "headrace.broker.network.dispatch"


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap) as raw:
        yield raw


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    """The broker runs in this process: its loggers are ours."""
    loggers = [logging.getLogger(name) for name in ("headrace", "headrace.broker", DISPATCH)]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def alter(client: RawClient, *changes: tuple[str, int, str | None], broker: str = "1", validate_only: bool = False) -> Any:
    configs = tuple(AlterableConfig(name=name, config_operation=operation, value=value) for name, operation, value in changes)
    resource = AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name=broker, configs=configs)
    return client.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only), 1).responses[0]


def describe(client: RawClient, broker: str = "1", keys: tuple[str, ...] | None = None) -> Any:
    resource = DescribeConfigsResource(resource_type=BROKER_LOGGER, resource_name=broker, configuration_keys=keys)
    return client.call(DescribeConfigsRequest(resources=(resource,)), 4).results[0]


def level(client: RawClient, name: str) -> str:
    (config,) = describe(client, keys=(name,)).configs
    return str(config.value)


def test_every_logger_of_the_broker_is_described_with_the_level_that_counts(client: RawClient) -> None:
    configs = {config.name: config for config in describe(client).configs}

    assert {"root", "headrace", "headrace.broker", DISPATCH} <= set(configs)
    assert all(name == "root" or name.split(".")[0] == "headrace" for name in configs)
    assert {config.config_source for config in configs.values()} == {OF_A_LOGGER}
    assert not any(config.read_only for config in configs.values())


@pytest.mark.parametrize(
    ("name", "number"),
    [("FATAL", 50), ("ERROR", 40), ("WARN", 30), ("INFO", 20), ("DEBUG", 10), ("TRACE", 5)],
)
def test_a_level_that_is_set_is_the_loggers_own_and_is_told(client: RawClient, name: str, number: int) -> None:
    answer = alter(client, (DISPATCH, SET, name))

    assert answer.error_code == ErrorCode.NONE
    assert logging.getLogger(DISPATCH).level == number
    assert level(client, DISPATCH) == name


def test_loggers_below_one_follow_it_until_they_have_a_level_of_their_own(client: RawClient) -> None:
    alter(client, ("headrace.broker", SET, "ERROR"), (DISPATCH, SET, "DEBUG"))
    own = level(client, DISPATCH)
    alter(client, (DISPATCH, DELETE, None))
    inherited = level(client, DISPATCH)

    assert (own, inherited) == ("DEBUG", "ERROR")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((DISPATCH, SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ((DISPATCH, SET, "debug"), ErrorCode.INVALID_CONFIG),
        ((DISPATCH, SET, None), ErrorCode.INVALID_CONFIG),
        (("headrace.nowhere", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("asyncio", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        ((DISPATCH, APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        ((DISPATCH, 77, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_wrong_change_refuses_all_of_them(client: RawClient, change: tuple[str, int, str | None], code: ErrorCode) -> None:
    before = level(client, "headrace")

    answer = alter(client, ("headrace", SET, "TRACE"), change)

    assert answer.error_code == code
    assert answer.error_message
    assert level(client, "headrace") == before


def test_validating_changes_no_level(client: RawClient) -> None:
    before = level(client, DISPATCH)

    answer = alter(client, (DISPATCH, SET, "TRACE"), validate_only=True)

    assert answer.error_code == ErrorCode.NONE
    assert level(client, DISPATCH) == before


@pytest.mark.parametrize("name", ["", "2", "one"])
def test_loggers_of_another_broker_are_not_ours_to_tell_or_to_change(client: RawClient, name: str) -> None:
    assert describe(client, name).error_code == ErrorCode.INVALID_REQUEST
    assert alter(client, (DISPATCH, SET, "INFO"), broker=name).error_code == ErrorCode.INVALID_REQUEST


def test_levels_cannot_be_replaced_all_at_once(client: RawClient) -> None:
    request = AlterConfigsRequest(
        resources=(ReplacedResource(resource_type=BROKER_LOGGER, resource_name="1", configs=()),), validate_only=False
    )

    assert client.call(request, 2).responses[0].error_code == ErrorCode.INVALID_REQUEST


def test_a_request_that_fails_is_logged_by_what_its_client_knows_it_by(
    broker: Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(dispatch, "decode", fail)
    host, port = client.socket.getsockname()
    number = client.send_request(DescribeConfigsRequest(resources=()), 4)
    assert client.is_closed_by_broker()

    assert f"DescribeConfigs request {host}:{port}/{number} of 'raw' failed" in caplog.messages
