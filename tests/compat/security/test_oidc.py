"""Tokens of an OpenID provider: librdkafka fetches them itself, and the broker checks them with the provider's keys."""

import json
import os
import shutil
import ssl
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import KafkaError, Producer

from headrace.host.certificates import DevelopmentAuthority
from headrace.testing.cluster import BrokerProcess
from headrace.testing.etcd import free_port
from tests.support.issuer import AUDIENCE
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
PACKAGES = ROOT / ".cache" / "kafkajs" / "node_modules"
PROGRAM = ROOT / "tests" / "compat" / "oidc" / "issuer.mjs"
CLIENT, SECRET = "app", "the app's secret"
WAIT_S = 40

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here: apt install nodejs npm"),
    pytest.mark.skipif(
        not (PACKAGES / "oidc-provider").is_dir(), reason="oidc-provider is not installed: `make test` installs it where npm may"
    ),
]


@dataclass(frozen=True, slots=True)
class Provider:
    """A running OpenID provider."""

    process: "subprocess.Popen[str]"
    url: str
    authority: Path

    def hear(self) -> str:
        """What it says next, but for what its library remarks."""
        assert self.process.stdout is not None
        return next(line[2:].strip() for line in self.process.stdout if line.startswith("> "))

    def change_its_key(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.hear()

    def token(self) -> str:
        """As a client that does it by hand gets one."""
        asked = Request(
            f"{self.url}/token",
            urlencode({"grant_type": "client_credentials", "scope": "kafka"}).encode(),
            {"Authorization": "Basic " + b64encode(f"{CLIENT}:{SECRET}".encode()).decode()},
        )
        with urlopen(asked, context=ssl.create_default_context(cafile=self.authority), timeout=WAIT_S) as reply:
            return str(json.load(reply)["access_token"])


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    authority = DevelopmentAuthority(tmp_path_factory.mktemp("oidc"))
    port, certificate = free_port(), authority.issue_broker(["127.0.0.1"])
    command = ["node", str(PROGRAM), str(port), str(certificate), CLIENT, SECRET, AUDIENCE]
    with subprocess.Popen(
        command,
        env={**os.environ, "PACKAGES": str(PACKAGES), "NODE_NO_WARNINGS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        provider = Provider(process, f"https://127.0.0.1:{port}", authority.file)
        assert provider.hear() == "serves"
        try:
            yield provider
        finally:
            process.kill()


@pytest.fixture(scope="module")
def broker(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """It trusts the provider's authority as it would any other: by what the machine trusts."""
    port = free_port()
    settings = {
        "listeners": f"SASL_SSL://127.0.0.1:{port}",
        "ssl.keystore.location": str(provider.authority.parent / "broker.pem"),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/jwks",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000",
        "sasl.oauthbearer.expected.issuer": provider.url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connection.failed.authentication.delay.ms": "1",
        "authorizer": "acl",
        "super.users": f"User:{CLIENT}",
    }
    running = BrokerProcess(1, port, tmp_path_factory.mktemp("broker") / "data", settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(provider.authority))
        running.start()
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.kill()


def librdkafka(broker: BrokerProcess, provider: Provider) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(provider.authority),
        "sasl.mechanism": "OAUTHBEARER",
        # A token that names an unknown key is refused until the keys are fetched again: the next try comes soon.
        "reconnect.backoff.max.ms": "300",
    }


def by_itself(provider: Provider, secret: str = SECRET) -> dict[str, str]:
    """How librdkafka fetches tokens."""
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
        "https.ca.location": str(provider.authority),
    }


def test_librdkafka_fetches_a_token_by_itself_and_its_owner_may_write(
    broker: BrokerProcess, provider: Provider, topic: str
) -> None:
    producer = Producer({**librdkafka(broker, provider), **by_itself(provider)})
    producer.produce(topic, b"value")

    assert producer.flush(WAIT_S) == 0


def test_who_does_not_know_the_clients_secret_gets_no_token(broker: BrokerProcess, provider: Provider) -> None:
    errors: list[KafkaError] = []
    config = librdkafka(broker, provider) | by_itself(provider, "another secret")
    producer = Producer({**config, "error_cb": errors.append})
    until(lambda: producer.poll(0.05) or errors, "an error is told")

    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert "invalid_client" in errors[0].str()


def test_when_the_provider_changes_its_key_new_tokens_are_good_and_those_of_the_old_key_are_not(
    broker: BrokerProcess, provider: Provider, topic: str
) -> None:
    old = provider.token()
    assert provider.change_its_key().startswith("signs with key-")
    producer = Producer({**librdkafka(broker, provider), **by_itself(provider)})
    producer.produce(topic, b"value")
    assert producer.flush(WAIT_S) == 0

    errors: list[KafkaError] = []
    late = Producer({**librdkafka(broker, provider), "oauth_cb": lambda _: (old, 2e9), "error_cb": errors.append, "log_level": 0})
    until(lambda: late.poll(0.05) or errors, "an error is told")
    assert errors[0].code() == KafkaError._AUTHENTICATION
