"""The registry on the gateway's port: for those whom the brokers let in, with their rights.  The gateway itself has those of
`headrace acl template gateway`, and no more."""

from collections.abc import Iterator

import httpx
import pytest

from headrace.cli.cluster.acl import TEMPLATES, ClientKind
from headrace.testing import Broker
from tests.support.gateway import GatewayThread
from tests.support.waiting import until

ROOT, READER, NOBODY, GATEWAY = [(name, f"of {name}") for name in ("root", "reader", "nobody", "gateway")]


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    settings = {"authorizer": "acl", "super.users": "User:root"}
    with (
        Broker(users=dict([ROOT, READER, NOBODY, GATEWAY]), settings=settings) as broker,
        GatewayThread(broker.bootstrap, properties=broker.client_config("gateway")) as gateway,
    ):
        needed = [rule("gateway", option, resource) for option, resource, _ in TEMPLATES[ClientKind.GATEWAY]]
        made = gateway.client.post("/acls", json={"acls": [rule("reader", "--read", "_schemas"), *needed]}, auth=ROOT)
        assert made.status_code == 201, made.text
        yield gateway.client


def rule(user: str, option: str, resource: str) -> dict[str, str]:
    kind, _, name = resource.rpartition(":") if resource != "cluster" else ("cluster", "", "kafka-cluster")
    kind = {"": "topic", "transaction": "transactional_id"}.get(kind, kind)
    operation = option.removeprefix("--").replace("-", "_")
    return {
        "permission": "allow",
        "principal": f"User:{user}",
        "operation": operation,
        "resource_type": kind,
        "resource_name": name,
    }


def test_the_rights_of_the_template_are_enough_for_a_gateway(http: httpx.Client) -> None:
    until(lambda: http.get("/live").json()["coordinated"], "it has its lease", 30)


def test_the_registry_answers_at_the_root_by_the_callers_rights(http: httpx.Client) -> None:
    schema = {"schema": '"string"'}
    made = http.post("/subjects/orders-value/versions", json=schema, auth=ROOT)
    read = http.get("/subjects", auth=READER)
    refused = [http.post("/subjects/x/versions", json=schema, auth=READER), http.get("/subjects", auth=NOBODY)]
    unknown = [http.get("/subjects"), http.get("/subjects", auth=("root", "a guess"))]

    assert (made.status_code, made.json()["id"]) == (200, 1), made.text
    assert read.json() == ["orders-value"]
    assert [(each.status_code, each.json()["error_code"]) for each in refused] == [(403, 40301), (403, 40301)]
    assert [each.status_code for each in unknown] == [401, 401]
    assert unknown[0].headers["WWW-Authenticate"].startswith("Basic")
