"""kafkajs, signed in by every mechanism: all that it supports but AWS's own."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.compat.security.stage import CERTIFICATE, OTHERS, TOKEN, USERS, WAYS, WITH_PASSWORD, Stage, Way

ROOT = Path(__file__).parents[3]
PACKAGES = ROOT / ".cache" / "kafkajs" / "node_modules"
STORY = ROOT / "tests" / "compat" / "kafkajs" / "secured.js"
VALUES = ["one", "two"]
WAIT_S = 60

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here: apt install nodejs npm"),
    pytest.mark.skipif(
        not (PACKAGES / "kafkajs").is_dir(), reason="kafkajs is not installed: `make test` installs it where npm may"
    ),
]


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
    done = subprocess.run(
        ["node", str(STORY)],
        input=json.dumps(given),
        env={**os.environ, "NODE_PATH": str(PACKAGES), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_kafkajs_writes_and_reads(stage: Stage, topic: str, way: Way) -> None:
    assert tell(stage, way, topic) == {"values": VALUES}


@pytest.mark.parametrize("way", WITH_PASSWORD, ids=str)
def test_kafkajs_is_told_that_a_password_is_wrong(stage: Stage, topic: str, way: Way) -> None:
    told = tell(stage, way, topic, "wrong")

    assert "Authentication failed" in told["error"]


def test_kafkajs_is_told_which_topic_it_may_not_write(stage: Stage) -> None:
    assert tell(stage, Way("SASL_SSL", "SCRAM-SHA-512"), OTHERS)["type"] == "TOPIC_AUTHORIZATION_FAILED"
