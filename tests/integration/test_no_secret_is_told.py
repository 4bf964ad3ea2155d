"""Secrets appear nowhere: they are planted wherever one can be, and looked for in all that a broker and the commands say.

Each has the same beginning, so that one look finds them all: the log of the broker at its most talkative, the audit trail and its
file, DescribeConfigs, replies with errors, the output of commands, the health port, process lists, and the data directory.
"""

import base64
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from headrace.model.access.scram import ScramMechanism, salted_password
from headrace.wire.messages.alter_configs import AlterableConfig as Replaced
from headrace.wire.messages.alter_configs import AlterConfigsRequest
from headrace.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from headrace.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.certificates import Authority
from tests.support.process import BrokerProcess, free_port
from tests.support.raw import RawClient

PLANTED = "pl4nted"
BROKER = 4
TOPIC = 2
SETTINGS_WITH_SECRETS = {
    "ssl.keystore.password": f"{PLANTED}-keystore",
    "ssl.truststore.password": f"{PLANTED}-truststore",
    "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f'X required username="ann" password="{PLANTED}-jaas";',
    "sasl.jaas.config": f'X required password="{PLANTED}-jaas";',
    "sasl.oauthbearer.client.credentials.client.secret": f"{PLANTED}-client",
    "password.encoder.secret": f"{PLANTED}-encoder",
    "nobody.knows.this.password": f"{PLANTED}-unknown",
}
TOKEN = ".".join(
    base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in ('{"alg":"none"}', '{"sub":"ann"}', PLANTED)
)


@dataclass
class Heard:
    """All that was said, by where it was said."""

    texts: dict[str, str] = field(default_factory=dict)

    def note(self, where: str, what: object) -> None:
        self.texts[where] = self.texts.get(where, "") + str(what)

    def leaks(self) -> list[str]:
        secret = base64.b64encode(PLANTED.encode()).decode().rstrip("=")[:-1]
        return [
            f"{where}: …{text[max(0, at - 80) : at + 40]}…"
            for where, text in self.texts.items()
            for what in (PLANTED, PLANTED.encode().hex(), secret)
            if (at := text.find(what)) >= 0
        ]


def write_encrypted_key(authority: Authority, folder: Path) -> Path:
    """A broker's key that only a planted password opens, with its certificate."""
    plain = authority.of_broker().read_bytes()
    key = load_pem_private_key(plain, None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(f"{PLANTED}-key".encode()))
    path = folder / "encrypted.pem"
    path.write_bytes(encrypted + plain[plain.index(b"-----BEGIN CERTIFICATE") :])
    path.chmod(0o600)
    return path


def write_settings(folder: Path) -> Path:
    issuer = folder / "keys.json"
    issuer.write_text('{"keys": []}')
    settings = {
        "ssl.keystore.location": str(write_encrypted_key(Authority(folder), folder)),
        "ssl.key.password": f"{PLANTED}-key",
        "headrace.metadata.password": f"{PLANTED}-etcd",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.as_uri(),
        "sasl.oauthbearer.expected.issuer": "x",
        "sasl.oauthbearer.expected.audience": "x",
        "connection.failed.authentication.delay.ms": "0",
        "headrace.sasl.plain.without.tls": "true",
        "headrace.audit": "on",
        "headrace.audit.file": str(folder / "audit.log"),
        "headrace.health.listener": f"127.0.0.1:{free_port()}",
    }
    path = folder / "broker.toml"
    path.write_text("".join(f'"{name}" = "{value}"\n' for name, value in settings.items()))
    path.chmod(0o600)
    return path


class Planting:
    """A broker process, and everybody who tells it secrets."""

    def __init__(self, folder: Path) -> None:
        self.heard = Heard()
        self.folder = folder
        self.settings = write_settings(folder)
        self.process = BrokerProcess(folder / "data", arguments=("--config", str(self.settings), "--verbose"))
        self.sasl = f"127.0.0.1:{free_port()}"
        self.bootstrap = self.process.bootstrap
        self.process.bootstrap = f"PLAINTEXT://{self.bootstrap},SASL_PLAINTEXT://{self.sasl},SASL_SSL://127.0.0.1:0"

    def ask(self, where: str, request: Any, version: int) -> Any:
        with RawClient(self.bootstrap) as client:
            reply = client.call(request, version)
        self.heard.note(where, reply)
        return reply

    def command(self, *words: str, given: str = "") -> None:
        """Run one, look at it in the process list, and keep what it says."""
        running = subprocess.Popen(
            [sys.executable, "-m", "headrace", *words, "--bootstrap", self.bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.heard.note("process list", Path(f"/proc/{running.pid}/cmdline").read_bytes())
        output, _ = running.communicate(given, timeout=120)
        self.heard.note(f"headrace {' '.join(words[:2])}", output)

    def sign_in(self, mechanism: str, token: bytes) -> None:
        with RawClient(self.sasl) as client:
            self.heard.note("replies", client.call(SaslHandshakeRequest(mechanism=mechanism), 1))
            for message in (token, b"\x01"):
                reply = client.call(SaslAuthenticateRequest(auth_bytes=message), 2)
                self.heard.note("replies", (reply.error_code, reply.error_message, reply.auth_bytes))
                if reply.error_code:
                    return

    # -- who tells secrets

    def add_users(self) -> None:
        self.command("user", "add", "bob", given=f"{PLANTED}-password\n")
        self.command("user", "password", "bob", given=f"{PLANTED}-other\n")
        self.command("user", "add", "bad\u200bname", given=f"{PLANTED}-password\n")
        salted = salted_password(ScramMechanism.SHA_256, f"{PLANTED}-scram", b"salt", 4096)
        for iterations, kept in ((4096, salted), (1, salted), (4096, PLANTED.encode())):
            upsertion = ScramCredentialUpsertion(
                name="cat", mechanism=1, iterations=iterations, salt=b"salt", salted_password=kept
            )
            self.ask("replies", AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,)), 0)

    def fail_to_sign_in(self) -> None:
        self.sign_in("PLAIN", f"\0bob\0{PLANTED}-other".encode())
        self.sign_in("PLAIN", f"\0bob\0{PLANTED}-wrong".encode())
        self.sign_in("PLAIN", f"\0{PLANTED.upper()}\0{PLANTED}-wrong\0too many".encode())
        self.sign_in("OAUTHBEARER", f"n,,\x01auth=Bearer {TOKEN}\x01\x01".encode())
        self.sign_in("OAUTHBEARER", f"n,,\x01auth={PLANTED}\x01\x01".encode())
        self.sign_in("SCRAM-SHA-256", f"n,,n=bob,r={PLANTED}\0".encode())

    def set_settings(self) -> None:
        for name, value in SETTINGS_WITH_SECRETS.items():
            for broker in ("1", ""):
                config = AlterableConfig(name=name, config_operation=0, value=value)
                resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=(config,))
                self.ask("replies", IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1)
            replaced = ReplacedResource(resource_type=BROKER, resource_name="1", configs=(Replaced(name=name, value=value),))
            self.ask("replies", AlterConfigsRequest(resources=(replaced,), validate_only=False), 2)
            topic = CreatableTopic(
                name="t",
                num_partitions=1,
                replication_factor=1,
                assignments=(),
                configs=(CreatableTopicConfig(name=name, value=value),),
            )
            reply = self.ask("replies", CreateTopicsRequest(topics=(topic,), timeout_ms=5000), 7)
            assert reply.topics[0].error_code, "a topic has no such setting"

    # -- who tells them on

    def listen(self) -> None:
        for broker in ("1", ""):
            wanted = DescribeConfigsResource(resource_type=BROKER, resource_name=broker, configuration_keys=None)
            request = DescribeConfigsRequest(resources=(wanted,), include_synonyms=True, include_documentation=True)
            self.ask("DescribeConfigs", request, 4)
        for words in (
            ("user", "list"),
            ("cluster", "status"),
            ("topic", "list"),
            ("audit", "tail"),
            ("audit", "search", "--json"),
        ):
            self.command(*words)
        health = next(line.split('"')[3] for line in self.settings.read_text().splitlines() if "health.listener" in line)
        for path in ("health", "ready", "metrics"):
            try:
                with urllib.request.urlopen(f"http://{health}/{path}", timeout=10) as page:
                    self.heard.note(f"/{path}", page.read().decode())
            except urllib.error.HTTPError as error:
                self.heard.note(f"/{path}", error.read().decode())
        self.heard.note("process list", Path(f"/proc/{self.process.pid}/cmdline").read_bytes())

    def read_what_is_left(self) -> None:
        self.heard.note("the broker's log", self.process.output())
        self.heard.note("the audit file", (self.folder / "audit.log").read_text())
        for file in (self.folder / "data").rglob("*"):
            if file.is_file():
                # What is kept of settings that were accepted is for the broker; passwords are kept by nobody.
                text = file.read_bytes().decode("latin-1")
                for name, value in SETTINGS_WITH_SECRETS.items():
                    text = text.replace(value, name).replace(value.replace('"', '\\"'), name)
                self.heard.note(f"data/{file.name}", text)


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Heard:
    planting = Planting(tmp_path_factory.mktemp("secrets"))
    with planting.process:
        planting.add_users()
        planting.fail_to_sign_in()
        planting.set_settings()
        planting.listen()
        planting.process.stop()
        planting.read_what_is_left()
    return planting.heard


def test_no_secret_is_told_anywhere(heard: Heard) -> None:
    assert heard.leaks() == []


def test_all_places_were_looked_at_and_have_something_to_say(heard: Heard) -> None:
    said = {where for where, text in heard.texts.items() if text.strip()}

    assert {
        "the broker's log",
        "the audit file",
        "DescribeConfigs",
        "replies",
        "process list",
        "headrace user add",
        "headrace user list",
        "headrace cluster status",
        "headrace audit tail",
        "headrace audit search",
        "/health",
        "data/metadata.sqlite",
    } <= said
    assert "AlterUserScramCredentials" in heard.texts["headrace audit search"]
    assert "the user or the password is wrong" in heard.texts["headrace audit search"]
    assert "a sign-in from 127.0.0.1 by PLAIN failed" in heard.texts["the broker's log"]
    assert "ssl.key.password" in heard.texts["DescribeConfigs"]


def test_a_secret_that_is_told_is_found() -> None:
    heard = Heard({"a log": f"the password is {PLANTED}-1", "other": base64.b64encode(f"{PLANTED}".encode()).decode()})

    assert len(heard.leaks()) == 2
