"""Requests that Schemathesis makes from the gateway's own description: every answer is one that is described.

HEADRACE_OPENAPI_CASES says how many for each operation; `make torture` asks for many.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from headrace.gateway.api.openapi import openapi
from headrace.gateway.gateway import all_operations
from headrace.testing import Broker
from tests.support.gateway import GatewayThread

CASES = int(os.environ.get("HEADRACE_OPENAPI_CASES", "1"))
# A stream has no end of its own, and what the whole cluster lives by is not for chance.
LEFT_OUT = {"GET /topics/{topic}/events", "PUT /brokers/{broker}/loggers/{logger}", "DELETE /brokers/{broker}"}
DESCRIBED = openapi([each for room in all_operations() for each in room.each if f"{each.method} {each.path}" not in LEFT_OUT])
SETTINGS = {"auto.create.topics.enable": "false", "authorizer": "acl", "super.users": "User:ANONYMOUS"}
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayThread]:
    with Broker(settings=SETTINGS) as broker, GatewayThread(broker.bootstrap) as running:
        yield running


def operations() -> list[Any]:
    found = schemathesis.openapi.from_dict(DESCRIBED).get_all_operations()
    return [pytest.param(each.ok(), id=f"{each.ok().method.upper()} {each.ok().path}") for each in found]


@pytest.mark.parametrize("operation", operations())
def test_every_answer_is_one_that_is_described(gateway: GatewayThread, operation: Any) -> None:
    gateway.client.post("/topics", json={"name": "orders"})  # which the operation before may have deleted

    @given(case=operation.as_strategy())
    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        derandomize=CASES < 10,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        if "topic" in case.path_parameters:
            case.path_parameters["topic"] = "orders"
        if case.query.get("wait_ms"):
            case.query["wait_ms"] = 1
        answer = case.call(base_url=gateway.url, timeout=60)
        case.validate_response(answer, checks=CHECKS)

    ask()
