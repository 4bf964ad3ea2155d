"""kcat, with a librdkafka some years older than ours, signed in by every mechanism that it can be given on a command line."""

import re
import shutil
import subprocess

import pytest

from tests.compat.security.stage import OTHERS, TOKEN, WAYS, Stage, Way

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed: apt install kcat")

WAIT_S = 30
BY_PASSWORD = Way("SASL_SSL", "PLAIN")
# Before this its SCRAM repeats the client's nonce, which nobody accepts who checks it: FINDINGS.md.
SCRAM_SINCE = (2, 6, 1)


def librdkafka_version() -> tuple[int, ...]:
    told = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", told)
    assert found is not None, told
    return tuple(map(int, found.groups()))


def kcat(config: dict[str, str], *arguments: str, lines: str = "") -> "subprocess.CompletedProcess[str]":
    settings = [word for name, value in config.items() for word in ("-X", f"{name}={value}")]
    command = ["kcat", *settings, *arguments]
    return subprocess.run(command, input=lines, capture_output=True, text=True, timeout=WAIT_S, check=False)


@pytest.mark.parametrize("way", [way for way in WAYS if way.mechanism != TOKEN], ids=str)
def test_kcat_writes_and_reads(stage: Stage, topic: str, way: Way) -> None:
    if "SCRAM" in way.mechanism and librdkafka_version() < SCRAM_SINCE:
        pytest.skip("this kcat's librdkafka is older than 2.6.1, whose SCRAM Apache Kafka 4 refuses, too")
    config = stage.librdkafka(way)
    written = kcat(config, "-P", "-t", topic, lines="one\ntwo\n")
    read = kcat(config, "-G", topic, "-q", "-e", "-X", "auto.offset.reset=earliest", topic)

    assert written.returncode == 0, written.stderr
    assert read.stdout.splitlines() == ["one", "two"], read.stderr


def test_kcat_says_that_a_password_is_wrong(stage: Stage) -> None:
    done = kcat(stage.librdkafka(BY_PASSWORD, password="wrong"), "-L", "-m", "2")

    assert done.returncode == 1
    assert "SASL authentication error: Authentication failed" in done.stderr


def test_a_token_that_nobody_signed_lets_nobody_in(stage: Stage) -> None:
    config = stage.librdkafka(Way("SASL_SSL", TOKEN)) | {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=ann",
    }
    done = kcat(config, "-L", "-m", "2")

    assert done.returncode == 1
    assert "SASL authentication error" in done.stderr


def test_kcat_says_which_topic_it_may_not_read(stage: Stage) -> None:
    done = kcat(stage.librdkafka(BY_PASSWORD), "-C", "-t", OTHERS, "-e")

    assert done.returncode == 1
    assert "Topic authorization failed" in done.stderr
