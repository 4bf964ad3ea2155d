"""franz-go, signed in by every mechanism that it supports but AWS's and Kerberos: `make compat-go` builds and runs it."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.compat.security.stage import CERTIFICATE, OTHERS, TOKEN, USERS, WAYS, WITH_PASSWORD, Stage, Way

PROGRAM = Path(__file__).parents[3] / ".cache" / "compat-go" / "secured"
VALUES = ["one", "two"]
WAIT_S = 60

pytestmark = pytest.mark.skipif(
    not PROGRAM.is_file(), reason="Go's clients are not built: `make compat-go` builds them where there is Go"
)


def tell(stage: Stage, way: Way, topic: str, password: str = USERS["ann"]) -> "subprocess.CompletedProcess[str]":
    given = {
        "bootstrap": stage.bootstrap(way),
        "topic": topic,
        "values": VALUES,
        "authority": "" if way.listener == "SASL_PLAINTEXT" else stage.authority,
        "certificate": stage.certificate if way.mechanism == CERTIFICATE else "",
        "mechanism": way.mechanism,
        "user": "ann",
        "password": password,
        "token": stage.issuer.token() if way.mechanism == TOKEN else "",
    }
    return subprocess.run([PROGRAM], input=json.dumps(given), capture_output=True, text=True, timeout=WAIT_S, check=False)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_franz_go_writes_and_reads(stage: Stage, topic: str, way: Way) -> None:
    done = tell(stage, way, topic)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == VALUES


@pytest.mark.parametrize("way", WITH_PASSWORD, ids=str)
def test_franz_go_is_told_that_a_password_is_wrong(stage: Stage, topic: str, way: Way) -> None:
    done = tell(stage, way, topic, "wrong")

    assert done.returncode == 1
    assert "SASL_AUTHENTICATION_FAILED" in done.stderr


def test_franz_go_is_told_which_topic_it_may_not_write(stage: Stage) -> None:
    done = tell(stage, Way("SASL_SSL", "SCRAM-SHA-512"), OTHERS)

    assert done.returncode == 1
    assert "TOPIC_AUTHORIZATION_FAILED" in done.stderr
