"""Every act through the gateway is the caller's own: by password, by token, by certificate, and nobody's without any of them."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headrace.gateway.settings import Limits, Tls
from headrace.testing import Broker
from tests.support.certificates import Authority
from tests.support.gateway import GatewayThread
from tests.support.issuer import AUDIENCE, ISSUER, Issuer

ANN, BOB, ROOT = ("ann", "of ann"), ("bob", "of bob"), ("root", "of root")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("principals")


@pytest.fixture(scope="module")
def issuer(folder: Path) -> Issuer:
    return Issuer(folder)


@pytest.fixture(scope="module")
def broker(issuer: Issuer) -> Iterator[Broker]:
    settings = {
        "authorizer": "acl",
        "super.users": "User:root",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,PLAIN",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.file.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with Broker(tls=True, users=dict([ANN, BOB, ROOT]), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder, "of-callers")


@pytest.fixture(scope="module")
def gateway(broker: Broker, authority: Authority, folder: Path) -> Iterator[GatewayThread]:
    identities = folder / "identities"
    identities.mkdir()
    (identities / "bob.toml").write_text(f'[profiles.bob]\nusername = "bob"\npassword = "{BOB[1]}"\n')
    (identities / "bob.toml").chmod(0o600)
    config = broker.client_config("root")
    # Its own credentials are root's: whatever works for a caller must not work by these.
    tls = Tls(certificate=authority.of_broker("gateway"), client_authority=authority.file)
    with GatewayThread(broker.bootstrap, properties=config, tls=tls, identities=identities) as running:
        running.client.close()
        running.client = httpx.Client(base_url=running.url, timeout=60, verify=authority.context())
        rules = [
            {
                "permission": "allow",
                "principal": f"User:{name}",
                "operation": what,
                "resource_type": "topic",
                "resource_name": topic,
            }
            for name, what, topic in [("ann", "all", "of-ann"), ("bob", "describe", "of-ann"), ("ann", "read", "of-root")]
        ]
        made = running.client.post("/acls", json={"acls": rules}, auth=ROOT)
        assert made.status_code == 201, made.text
        for name in ("of-ann", "of-root"):
            assert running.client.post("/topics", json={"name": name}, auth=ROOT).status_code == 201
        yield running


def names(answer: httpx.Response) -> list[str]:
    return [topic["name"] for topic in answer.json()["topics"]]


def test_each_caller_sees_and_does_what_it_may(gateway: GatewayThread) -> None:
    client = gateway.client

    assert names(client.get("/topics", auth=ROOT)) == ["of-ann", "of-root"]
    assert names(client.get("/topics", auth=ANN)) == ["of-ann", "of-root"]
    assert names(client.get("/topics", auth=BOB)) == ["of-ann"]
    refused = client.delete("/topics/of-ann", auth=BOB)
    assert (refused.status_code, refused.json()["code"]) == (403, "topic_authorization_failed")
    refused = client.post("/topics", json={"name": "new"}, auth=ANN)
    assert refused.status_code == 403
    assert client.get("/topics/of-ann", auth=ANN).status_code == 200


def test_who_may_write_no_topic_is_refused_and_writes_as_soon_as_it_is_allowed(gateway: GatewayThread) -> None:
    """Without any right to write, a producer of librdkafka fails for good: the next request has another."""
    rule = {
        "permission": "allow",
        "principal": "User:bob",
        "operation": "write",
        "resource_type": "topic",
        "resource_name": "of-ann",
    }
    records, write = {"records": [{"value": "x"}]}, "/topics/of-ann/records"

    refused = gateway.client.post(write, json=records, auth=BOB)
    assert gateway.client.post("/acls", json={"acls": [rule]}, auth=ROOT).status_code == 201
    written = gateway.client.post(write, json=records, auth=BOB)
    assert gateway.client.request("DELETE", "/acls", params=rule, auth=ROOT).status_code < 300

    assert (refused.status_code, refused.json()["code"]) == (403, "cluster_authorization_failed")
    assert "no right to WRITE to any topic" in refused.json()["detail"]
    assert written.status_code == 200, written.text


def test_who_may_not_see_the_rules_is_not_told_that_there_are_none(gateway: GatewayThread) -> None:
    refused = gateway.client.get("/acls", auth=ANN)

    assert (refused.status_code, refused.json()["code"]) == (403, "cluster_authorization_failed")
    assert gateway.client.get("/acls", params={"principal": "User:nobody"}, auth=ROOT).json()["acls"] == []


def test_without_credentials_nothing_is_done(gateway: GatewayThread) -> None:
    answer = gateway.client.get("/topics")

    assert (answer.status_code, answer.json()["code"]) == (401, "not_signed_in")
    assert answer.headers["WWW-Authenticate"].startswith("Basic")


@pytest.mark.parametrize(
    "header",
    ["Basic !!!", "Basic YW5u", "Basic OnB3", "Digest x", "Bearer", "Basic", "Bearer a.b.c"],
)
def test_credentials_that_are_none_are_refused(gateway: GatewayThread, header: str) -> None:
    answer = gateway.client.get("/topics", headers={"Authorization": header})

    assert (answer.status_code, answer.json()["code"]) == (401, "not_signed_in")


def test_a_wrong_password_is_refused_and_said_nothing_of(gateway: GatewayThread) -> None:
    answer = gateway.client.get("/topics", auth=("ann", "a guess"))

    assert answer.status_code == 401
    assert "a guess" not in answer.text
    assert gateway.client.get("/topics", auth=ANN).status_code == 200


def test_a_token_is_passed_on(gateway: GatewayThread, issuer: Issuer) -> None:
    ann, bob = ({"Authorization": f"Bearer {issuer.token(sub=name)}"} for name in ("ann", "bob"))

    assert names(gateway.client.get("/topics", headers=ann)) == ["of-ann", "of-root"]
    assert names(gateway.client.get("/topics", headers=bob)) == ["of-ann"]
    assert gateway.client.delete("/topics/of-ann", headers=bob).status_code == 403


def test_a_client_certificate_stands_for_an_identity(gateway: GatewayThread, authority: Authority) -> None:
    known, unknown = authority.of_client("bob", "bob"), authority.of_client("../root", "climber")

    with httpx.Client(base_url=gateway.url, timeout=60, verify=authority.context(known)) as client:
        assert names(client.get("/topics")) == ["of-ann"]
        assert names(client.get("/topics", auth=ANN)) == ["of-ann", "of-root"]
    with httpx.Client(base_url=gateway.url, timeout=60, verify=authority.context(unknown)) as client:
        assert client.get("/topics").status_code == 401


def test_the_pool_of_principals_is_bounded_and_lets_go_of_the_idle(broker: Broker) -> None:
    limits = Limits(callers_max=2)
    with GatewayThread(broker.bootstrap, properties=broker.client_config("root"), limits=limits) as gateway:
        answers = [gateway.client.get("/topics", auth=who).status_code for who in (ANN, BOB, ROOT, ANN)]

        assert answers == [200] * 4
        assert gateway.ask(lambda running: len(running.callers)) <= 2


def test_whoever_may_not_sign_in_any_more_is_refused_before_long(broker: Broker) -> None:
    limits = Limits(caller_age_seconds=0)
    with GatewayThread(broker.bootstrap, properties=broker.client_config("root"), limits=limits) as gateway:
        gateway.client.put("/users/guest", json={"password": "for a day"}, auth=ROOT)
        before = gateway.client.get("/topics", auth=("guest", "for a day"))
        gateway.client.delete("/users/guest", auth=ROOT)
        after = gateway.client.get("/topics", auth=("guest", "for a day"))

    assert (before.status_code, after.status_code) == (200, 401)
