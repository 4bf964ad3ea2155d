"""Secrets appear nowhere beside the broker either.

A gateway, its webhooks, the schema registry and profiles are told some, and all that they say is looked through: answers, logs at
their most talkative, process lists, topics, and the broker's audit trail.
"""

import contextlib
import io
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.cli.main import run
from headrace.testing import Broker
from tests.integration.test_no_secret_is_told import PLANTED, TOKEN, Heard
from tests.support.audit import events_of
from tests.support.endpoint import Endpoint
from tests.support.gateway import GatewayProcess
from tests.support.waiting import until

USERS = {"gateway": f"{PLANTED}-gateway", "ann": f"{PLANTED}-ann"}
ANN = ("ann", USERS["ann"])
KEY = f"{PLANTED}-of-the-key-with-which-secrets-are-sealed"
SETTINGS = {
    "authorizer": "acl",
    "super.users": "User:ann",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    "connection.failed.authentication.delay.ms": "0",
}


def let_gateway_in(broker: Broker) -> None:
    """By the rules that the template has, and no more."""
    with contextlib.redirect_stdout(io.StringIO()) as template:
        assert run(["acl", "template", "gateway", "--user", "gateway"]) == 0
    for line in template.getvalue().splitlines():
        _, *words = shlex.split(line, comments=True)
        assert run([*words, "--profile", str(broker.profile("ann"))]) == 0


class Teller:
    """Tells a gateway secrets, and keeps what it answers."""

    def __init__(self, gateway: GatewayProcess, heard: Heard) -> None:
        self._gateway, self._heard = gateway, heard

    def __call__(self, method: str, path: str, **more: Any) -> httpx.Response:
        answer = self._gateway.client.request(method, path, **{"auth": ANN, **more})
        self._heard.note(f"answers of /{path.split('/')[1]}", f"{answer.status_code} {answer.headers} {answer.text}")
        return answer


def tell_wrong_credentials(tell: Teller) -> None:
    for headers in ({"Authorization": f"Bearer {TOKEN}"}, {"Authorization": f"Digest {PLANTED}"}, {"Authorization": PLANTED}):
        assert tell("GET", "/topics", auth=None, headers=headers).status_code in (401, 403)
    assert tell("GET", "/topics", auth=("ann", f"{PLANTED}-wrong")).status_code == 401
    assert tell("GET", "/subjects", auth=("ann", f"{PLANTED}-wrong")).status_code == 401


def tell_passwords(tell: Teller) -> None:
    assert tell("PUT", "/users/bob", json={"password": f"{PLANTED}-bob"}).status_code < 300
    assert tell("PUT", "/users/bob", json={"password": f"{PLANTED}-bob", "more": PLANTED.upper()}).status_code >= 400
    assert tell("PUT", "/users/bad\u200bname", json={"password": f"{PLANTED}-bad"}).status_code >= 400
    assert tell("PUT", "/users/bob", content=f'{{"password": "{PLANTED}-bob"').status_code >= 400
    settings = {"settings": {"ssl.key.password": f"{PLANTED}-setting"}}
    assert tell("POST", "/topics", json={"name": "odd", **settings}).status_code >= 400
    tell("GET", "/users")
    tell("GET", "/brokers/1/settings")


def subscribe(tell: Teller, endpoint: Endpoint) -> str:
    """Have records posted; the secret that signs them."""
    assert tell("POST", "/topics", json={"name": "orders", "partitions": 1}).status_code == 201
    wanted = {"topic": "orders", "group": "hooks", "callback_url": endpoint.url, "begin": "earliest"}
    made = tell._gateway.client.post("/subscriptions", json=wanted, auth=ANN)
    assert made.status_code == 201, made.text
    tell("POST", "/topics/orders/records", json={"value": 1})
    until(lambda: endpoint.posted, "the record is posted")
    tell("GET", "/subscriptions")
    tell("GET", f"/subscriptions/{made.json()['id']}/deliveries")
    tell("POST", "/subscriptions", json={**wanted, "callback_url": f"http://ann:{PLANTED}@127.0.0.1:1/"})
    return str(made.json()["secret"])


def show_profiles(folder: Path, heard: Heard) -> None:
    """With each way to write a secret into one, and with a file that is broken where the secret is."""
    file = folder / "profile.toml"
    for text in (
        f'[profiles.x]\nusername = "ann"\npassword = "{PLANTED}-profile"\n',
        f'[profiles.x.librdkafka]\n"ssl.key.password" = "{PLANTED}-key"\n',
        f'[profiles.x]\ntoken = "{TOKEN}"\n',
        f'[profiles.x]\nusername = "ann"\npassword = "{PLANTED}-profile\n',
        f'[profiles.x]\npasword = "{PLANTED}-profile"\n',
    ):
        file.write_text(text)
        file.chmod(0o600)
        shown = subprocess.run(
            [sys.executable, "-m", "headrace", "profile", "show", str(file)], capture_output=True, text=True, timeout=60
        )
        heard.note("headrace profile show", shown.stdout + shown.stderr)


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Heard:
    folder, heard = tmp_path_factory.mktemp("secrets"), Heard()
    key = folder / "seal.key"
    key.write_text(KEY)
    key.chmod(0o600)
    log = folder / "gateway.log"
    options = ("--secret-key-file", str(key), "--webhook-network", "127.0.0.0/8", "--webhook-http", "--verbose")
    with Broker(users=USERS, settings=SETTINGS, data=folder / "data") as broker, Endpoint() as endpoint:
        let_gateway_in(broker)
        way = ("--profile", str(broker.profile("gateway")))
        with GatewayProcess(broker.bootstrap, log, *way, *options) as gateway:
            until(lambda: gateway.client.get("/live").json()["coordinated"], "it has its lease")
            tell = Teller(gateway, heard)
            tell_wrong_credentials(tell)
            tell_passwords(tell)
            secret = subscribe(tell, endpoint)
            tell("POST", "/subjects/orders-value/versions", json={"schema": f'{{"password": "{PLANTED.upper()}"'})
            assert tell("POST", "/subjects/orders-value/versions", json={"schema": '"string"'}).status_code == 200
            heard.note("process list", Path(f"/proc/{gateway.pid}/cmdline").read_bytes())
            gateway.stop()
        heard.note("the audit trail", events_of(broker))
    heard.note("the gateway's log", log.read_text())
    for file in (folder / "data").rglob("*"):
        if file.is_file():
            heard.note(f"data/{file.parent.name}", file.read_bytes().decode("latin-1"))
    show_profiles(folder, heard)
    for where, text in heard.texts.items():
        # What signs webhooks is made by the gateway, and told once.
        heard.texts[where] = text.replace(secret.removeprefix("whsec_"), PLANTED)
    return heard


def test_no_secret_is_told_by_gateways_webhooks_registries_and_profiles(heard: Heard) -> None:
    assert heard.leaks() == []


def test_all_of_them_were_told_secrets_and_had_something_to_say(heard: Heard) -> None:
    said = {where for where, text in heard.texts.items() if text.strip()}

    assert {"the gateway's log", "the audit trail", "process list", "headrace profile show"} <= said
    assert {f"answers of /{name}" for name in ("topics", "users", "brokers", "subscriptions", "subjects")} <= said
    assert {"data/__headrace_gateway-0", "data/orders-0"} <= said
    assert "AlterUserScramCredentials" in heard.texts["the audit trail"]
    assert '"sealed"' in heard.texts["data/__headrace_gateway-0"]
