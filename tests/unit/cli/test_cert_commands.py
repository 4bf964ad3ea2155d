"""Certificates for development: what `cert make` writes is what a broker and a client take."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.testing import Broker
from headrace.wire.messages.api_versions import ApiVersionsRequest
from tests.support.raw import RawClient

Command = Callable[..., Any]


def test_a_broker_and_a_client_take_what_is_made(client: Command, tmp_path: Path) -> None:
    assert client("cert", "make", str(tmp_path), "--host", "broker.local", "--client", "ann").code == 0
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": tmp_path / "broker.pem",
        "ssl.truststore.location": tmp_path / "ca.pem",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
    }
    with Broker(settings=settings) as broker:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        context.load_cert_chain(tmp_path / "ann.pem")
        raw = RawClient(broker.bootstrap)
        raw.socket = context.wrap_socket(raw.socket, server_hostname="broker.local")
        raw.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 3)

        assert "User:ann" in broker.run(lambda real: {str(each.principal) for each in real.server.connections})


def test_an_authority_that_is_there_goes_on_and_keys_are_for_their_owner(client: Command, tmp_path: Path) -> None:
    client("cert", "make", str(tmp_path))
    before = (tmp_path / "ca.pem").read_bytes(), (tmp_path / "broker.pem").read_bytes()
    client("cert", "make", str(tmp_path))
    after = (tmp_path / "ca.pem").read_bytes(), (tmp_path / "broker.pem").read_bytes()

    assert before[0] == after[0]
    assert before[1] != after[1]
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("ca.key", "broker.pem")} == {0o600}


def test_a_client_whose_name_is_no_files_is_refused(client: Command, tmp_path: Path) -> None:
    assert client("cert", "make", str(tmp_path), "--client", "../ann").code == 2


def test_a_certificate_for_a_client_leaves_the_others_as_they_are(client: Command, tmp_path: Path) -> None:
    client("cert", "make", str(tmp_path), "--host", "broker.local")
    before = {name: (tmp_path / name).read_bytes() for name in ("ca.pem", "broker.pem")}

    assert client("cert", "make", str(tmp_path), "--client", "ann").code == 0
    for reserved in ("ca", "broker"):
        assert client("cert", "make", str(tmp_path), "--client", reserved).code == 2

    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert (tmp_path / "ann.pem").exists()
