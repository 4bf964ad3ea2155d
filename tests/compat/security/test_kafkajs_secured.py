"""kafkajs, signed in by every mechanism: all that it supports but AWS's own."""

from typing import Any

import pytest

from tests.compat import kafkajs_stories
from tests.compat.kafkajs_stories import needs_kafkajs
from tests.compat.security.stage import CERTIFICATE, OTHERS, TOKEN, USERS, WAYS, WITH_PASSWORD, Stage, Way

VALUES = ["one", "two"]

pytestmark = needs_kafkajs


def tell(stage: Stage, way: Way, topic: str, password: str = USERS["ann"]) -> Any:
    given: dict[str, Any] = {"brokers": [stage.bootstrap(way)], "topic": topic, "values": VALUES}
    if way.listener != "SASL_PLAINTEXT":
        given["ssl"] = {"authority": stage.authority}
    if way.mechanism == CERTIFICATE:
        given["ssl"]["certificate"] = stage.certificate
    elif way.mechanism == TOKEN:
        given["sasl"] = {"token": stage.issuer.token()}
    else:
        given["sasl"] = {"mechanism": way.mechanism.lower(), "username": "ann", "password": password}
    return kafkajs_stories.tell("secured.js", given=given)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_kafkajs_writes_and_reads(stage: Stage, topic: str, way: Way) -> None:
    assert tell(stage, way, topic) == {"values": VALUES}


@pytest.mark.parametrize("way", WITH_PASSWORD, ids=str)
def test_kafkajs_is_told_that_a_password_is_wrong(stage: Stage, topic: str, way: Way) -> None:
    told = tell(stage, way, topic, "wrong")

    assert "Authentication failed" in told["error"]


def test_kafkajs_is_told_which_topic_it_may_not_write(stage: Stage) -> None:
    assert tell(stage, Way("SASL_SSL", "SCRAM-SHA-512"), OTHERS)["type"] == "TOPIC_AUTHORIZATION_FAILED"
