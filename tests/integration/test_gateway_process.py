"""The gateway as a process: its limits, TLS, health, the description of itself, and its end."""

import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trustme
from cryptography.x509 import load_pem_x509_certificate

from headrace.gateway.settings import Limits, Tls
from headrace.testing import Broker
from tests.support.certificates import Authority
from tests.support.gateway import GatewayProcess, GatewayThread
from tests.support.process import BrokerProcess, free_port
from tests.support.waiting import until


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(broker: Broker) -> Iterator[GatewayThread]:
    limits = Limits(body_bytes_max=2000, connections_max=3, header_seconds=0.5, header_bytes_max=4096, requests_per_second=0)
    with GatewayThread(broker.bootstrap, limits=limits, cors_origins=("https://shop.example",)) as running:
        yield running


def test_a_body_that_is_too_large_is_refused(gateway: GatewayThread) -> None:
    answer = gateway.client.post("/topics", json={"name": "x" * 3000})

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


def test_a_header_that_is_too_large_is_refused(gateway: GatewayThread) -> None:
    answer = gateway.client.get("/topics", headers={"X-Large": "x" * 10_000})

    assert answer.status_code in (400, 431)


def test_whoever_writes_headers_too_slowly_is_let_go(gateway: GatewayThread) -> None:
    host, port = gateway.gateway.server.address.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"GET /topics HTTP/1.1\r\nHost: x\r\n")

        assert connection.recv(100) == b""


def test_a_connection_too_many_is_told_so(gateway: GatewayThread) -> None:
    host, port = gateway.gateway.server.address.split(":")
    gateway.client.close()
    gateway.client = httpx.Client(base_url=gateway.url, timeout=60)
    until(lambda: gateway.ask(lambda running: running.server.connections) == 0, "no connection is left")
    kept = [socket.create_connection((host, int(port)), timeout=20) for _ in range(3)]
    until(lambda: gateway.ask(lambda running: running.server.connections) == 3, "three are there")
    with socket.create_connection((host, int(port)), timeout=20) as refused:
        said = refused.recv(1000)
    for connection in kept:
        connection.close()
    until(lambda: gateway.ask(lambda running: running.server.connections) == 0, "all have gone")

    assert said.startswith(b"HTTP/1.1 503")
    assert json.loads(said.partition(b"\r\n\r\n")[2])["code"] == "too_many_connections"


def test_only_pages_of_named_origins_may_call(gateway: GatewayThread) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Origin": "https://shop.example"}
    allowed = gateway.client.options("/topics", headers=asked)
    refused = gateway.client.options("/topics", headers={**asked, "Origin": "https://evil.example"})
    answered = gateway.client.get("/topics", headers={"Origin": "https://evil.example"})

    assert (allowed.status_code, allowed.headers["Access-Control-Allow-Origin"]) == (204, "https://shop.example")
    assert (refused.status_code, "Access-Control-Allow-Origin" in answered.headers) == (403, False)
    assert answered.headers["X-Content-Type-Options"] == "nosniff"


def test_openapi_describes_every_route_and_the_page_loads_nothing_from_elsewhere(gateway: GatewayThread) -> None:
    described = gateway.client.get("/openapi.json").json()
    page = gateway.client.get("/", follow_redirects=True)
    script = gateway.client.get("/try/page.js")

    assert described["openapi"] == "3.1.0"
    served = {(each.method.lower(), each.path) for each in gateway.gateway.operations if each.listed}
    assert {(method, path) for path, methods in described["paths"].items() for method in methods} == served
    identifiers = [each["operationId"] for methods in described["paths"].values() for each in methods.values()]
    assert len(set(identifiers)) == len(identifiers)
    assert "https://" not in page.text + script.text
    assert "http://" not in page.text + script.text
    assert gateway.client.get("/try/../settings.py").status_code == 404


def test_it_is_ready_when_a_broker_answers_and_alive_without_one() -> None:
    with GatewayThread(f"127.0.0.1:{free_port()}") as alone:
        ready, live = alone.client.get("/ready"), alone.client.get("/live")
        asked = alone.client.get("/topics")

    assert (ready.status_code, ready.json()["code"], live.status_code) == (503, "no_broker", 200)
    assert (asked.status_code, asked.json()["code"]) == (503, "no_broker")


def test_a_name_that_a_page_could_have_made_is_refused(gateway: GatewayThread) -> None:
    """DNS rebinding: the page's own name stands for the gateway's address, and no browser sees another origin."""
    port = gateway.url.rpartition(":")[2]
    rebound = {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}", "Sec-Fetch-Site": "same-origin"}
    read = gateway.client.get("/topics", headers=rebound)
    changed = gateway.client.post("/topics", json={"name": "rebound"}, headers=rebound)
    called = gateway.client.get("/topics", headers={"Host": f"localhost:{port}"})

    assert [(each.status_code, each.json()["code"]) for each in (read, changed)] == [(421, "host_not_allowed")] * 2
    assert (called.status_code, "rebound" in called.text) == (200, False)


def test_a_principal_that_asks_too_often_waits_and_health_does_not(broker: Broker) -> None:
    with GatewayThread(broker.bootstrap, limits=Limits(requests_per_second=1)) as gateway:
        health = [gateway.client.get(path) for path in ("/live", "/ready") * 3]
        answers = [gateway.client.get("/topics") for _ in range(4)]

    assert {each.status_code for each in health} == {200}
    assert answers[0].status_code == 200
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["Retry-After"]) >= 1


def test_a_process_says_where_it_listens_and_ends_cleanly(tmp_path: Path, broker: Broker) -> None:
    with GatewayProcess(broker.bootstrap, tmp_path / "log") as process:
        ready = process.client.get("/ready")
        assert ready.status_code == 200, ready.text
        code = process.stop()

    assert code == 0
    assert f"Headrace gateway     {process.url}" in (tmp_path / "log").read_text()


def test_certificates_are_taken_from_files(tmp_path: Path, broker: Broker) -> None:
    authority = Authority(tmp_path)
    with GatewayThread(broker.bootstrap, tls=Tls(certificate=authority.of_broker())) as gateway:
        answer = httpx.get(f"https://localhost:{gateway.url.rpartition(':')[2]}/live", verify=authority.context())

    assert (gateway.url[:5], answer.json()["status"]) == ("https", "alive")


def test_a_renewed_certificate_is_taken_up_and_one_that_does_not_fit_its_key_is_not(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.gateway.serving.server.LOOK_FOR_CERTIFICATES_S", 0.05)
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    put_apart(authority.of_broker("first"), *files)

    def serial() -> int:
        """Of the certificate that is shown to a newcomer."""
        pem = ssl.get_server_certificate(("127.0.0.1", int(running.url.rpartition(":")[2])))
        return load_pem_x509_certificate(pem.encode()).serial_number

    with GatewayThread(broker.bootstrap, tls=Tls(certificate=files[0], key=files[1])) as running:
        first, second = serial(), other.of_broker("second")
        put_apart(second, files[0], tmp_path / "not.yet")
        until(lambda: "the old one stays" in caplog.text, "it is told")
        assert serial() == first
        put_apart(second, *files)
        until(lambda: serial() != first, "the new one is shown")
        shown = {first, serial()}
        put_apart(other.of_broker("third", key_type=trustme.KeyType.RSA), *files)
        until(lambda: serial() not in shown, "one with a key of another kind is shown, too")


def put_apart(file: Path, certificate: Path, key: Path) -> None:
    """A key and its certificate in files of their own."""
    text = file.read_text()
    begins = text.index("-----BEGIN CERTIFICATE")
    key.touch(0o600)
    key.write_text(text[:begins])
    certificate.write_text(text[begins:])


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    from headrace.client.errors import InvalidArgument
    from headrace.gateway.serving.server import server_context

    certificate = Authority(tmp_path).of_broker()
    certificate.chmod(0o640)
    server_context(Tls(certificate=certificate))
    certificate.chmod(0o644)
    with pytest.raises(InvalidArgument, match="others may read it; run: chmod 640"):
        server_context(Tls(certificate=certificate))


def test_an_unusable_address_or_certificate_is_said_in_a_sentence(tmp_path: Path) -> None:
    from headrace.client.errors import InvalidArgument
    from headrace.gateway.serving.server import listen_address, server_context

    with pytest.raises(InvalidArgument, match="cannot be used"):
        server_context(Tls(certificate=tmp_path / "missing.pem"))
    with pytest.raises(InvalidArgument, match="not HOST:PORT"):
        listen_address("8080")
    assert listen_address("[::1]:80") == ("::1", 80)


def test_a_broker_serves_http_beside_it_and_both_end_together(tmp_path: Path) -> None:
    port = free_port()
    process = BrokerProcess(tmp_path / "data", arguments=("--http", f"127.0.0.1:{port}"))
    with process, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        until(lambda: _answers(client), lambda: f"the gateway answers:\n{process.output()}", 60)
        written = client.post("/topics", json={"name": "beside", "partitions": 1})
        assert written.status_code == 201, written.text
        place = client.post("/topics/beside/records", json={"value": 7}).json()["records"][0]
        read = client.get("/topics/beside/records", params={"from": "earliest"}).json()["records"]
        ready = client.get("/ready")
        code = process.stop()
        with pytest.raises(httpx.TransportError):
            client.get("/live")

    assert (place["offset"], [each["value"] for each in read], ready.status_code, code) == (0, [7], 200, 0)
    assert f"http://127.0.0.1:{port}/try/" in process.log_path.read_text()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/live").status_code == 200
    except httpx.TransportError:
        return False


def test_an_address_for_http_that_is_taken_is_said_before_the_broker_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [
            sys.executable,
            "-m",
            "headrace",
            "serve",
            "--memory",
            "--listen",
            f"127.0.0.1:{free_port()}",
            "--http",
            address,
        ]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 1
    assert f"something already listens at {address}" in ended.stderr
    assert "--http HOST:PORT" in ended.stderr
    assert "Traceback" not in ended.stderr
