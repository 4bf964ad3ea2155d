"""The registry on the gateway's port: for those whom the brokers let in, with their rights."""

from collections.abc import Iterator

import httpx
import pytest

from headrace.testing import Broker
from tests.support.gateway import GatewayThread

ROOT, READER, NOBODY = ("root", "of root"), ("reader", "of reader"), ("nobody", "of nobody")


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    settings = {"authorizer": "acl", "super.users": "User:root"}
    rule = {"permission": "allow", "principal": "User:reader", "operation": "read"}
    with (
        Broker(users=dict([ROOT, READER, NOBODY]), settings=settings) as broker,
        GatewayThread(broker.bootstrap, properties=broker.client_config("root")) as gateway,
    ):
        rules = {"acls": [{**rule, "resource_type": "topic", "resource_name": "_schemas"}]}
        assert gateway.client.post("/acls", json=rules, auth=ROOT).status_code == 201
        yield gateway.client


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
