"""A console beside a broker with something of everything on it, and a browser to look at it with."""

import json
import shutil
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl

from headrace import Admin, Consumer, Producer
from headrace.client.admin.schedules import Schedules
from headrace.client.deadletter.deadletter import PREFIX
from headrace.client.errors import HeadraceError
from headrace.client.formats.avro import Avro
from headrace.client.producer.transaction import Transaction
from headrace.console.console import Console
from headrace.console.settings import ConsoleSettings
from headrace.model.identity import TopicPartition
from headrace.testing import Broker
from tests.support.gateway import GatewayThread
from tests.support.issuer import AUDIENCE, ISSUER, Issuer
from tests.support.process import free_port
from tests.support.raw import RawClient
from tests.support.share_member import ShareMember
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(__file__).parents[2] / ".cache" / "kafkajs" / "node_modules" / "axe-core" / "axe.min.js"
SAMPLE_SECONDS = 0.5
USERS = {"root": "of root", "ann": "of ann"}
SCHEMA = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "account", "type": "string"}, {"name": "cents", "type": "long"}],
}


class ConsoleThread(GatewayThread):
    """A gateway with a console."""

    def __init__(self, bootstrap: str, properties: dict[str, Any] | None = None, **settings: Any) -> None:
        wanted = ConsoleSettings(**{"sample_seconds": SAMPLE_SECONDS, **settings})
        super().__init__(bootstrap, properties=properties or {})
        self.additions = [lambda gateway: Console(wanted, gateway)]


class World:
    """`open` is where nobody signs in, `closed` where everybody has to; both are doors of one broker."""

    def __init__(self, data: Path) -> None:
        keys = data / "keys"
        keys.mkdir(parents=True)
        self.issuer = Issuer(keys)
        self.broker = Broker(
            data=data / "broker",
            users=USERS,
            settings={
                "listeners": "OPEN://127.0.0.1:0,CLOSED://127.0.0.1:0",
                "listener.security.protocol.map": "OPEN:PLAINTEXT,CLOSED:SASL_PLAINTEXT",
                "inter.broker.listener.name": "OPEN",
                "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": self.issuer.file.as_uri(),
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "authorizer": "acl",
                "super.users": "User:ANONYMOUS;User:root",
                "num.partitions": 3,
                "headrace.metrics.listener": f"127.0.0.1:{free_port()}",
            },
        )
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.broker.start()
        self._stack.callback(self.broker.stop)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    @property
    def open(self) -> str:
        return self.broker.bootstraps["OPEN"]

    @property
    def closed(self) -> str:
        return self.broker.bootstraps["CLOSED"]

    def fill(self, registry: str) -> None:
        """Something of everything."""
        with Admin(self.open) as admin:
            for name in ("orders", "payments", "orders.dead-letter"):
                admin.create_topic(name, partitions=3)
            self._write(registry)
            admin.set_offsets("billing", {TopicPartition("orders", partition): 5 for partition in range(3)})
        self._members()
        Schedules(self.open).put("nightly", {"cron": "0 3 * * *", "topic": "orders", "value": '{"job": "report"}'})

    def _write(self, registry: str) -> None:
        with Producer(self.open) as producer:
            for number in range(90):
                customer = ("ann", "bob", "eve")[number % 3]
                order = {"order": number, "customer": customer, "total": number * 1.5, "items": [{"sku": f"A-{number}"}]}
                headers = {"source": "web" if number % 2 else "shop"}
                producer.send("orders", json.dumps(order), key=customer, headers=headers, partition=number % 3)
            facts = {"topic": "orders", "partition": "1", "offset": "7", "group": "billing", "reason": "the card is expired"}
            letter = {f"{PREFIX}{name}": value for name, value in facts.items()}
            producer.send("orders.dead-letter", '{"order": 22}', key="bob", headers=letter, partition=0)
        with Producer(self.open, values=Avro(SCHEMA, registry=registry)) as producer:
            producer.send("payments", {"account": "ann", "cents": 1250}, partition=0).result()

    def _members(self) -> None:
        """Members of the two newer kinds of groups, and a transaction that is open."""
        shipping = Consumer[bytes, bytes]("orders", bootstrap=self.open, group="shipping", protocol="consumer")
        self._stack.enter_context(shipping)
        until(lambda: shipping.batch(1, 0.2))
        share = RawClient(self.open)
        self._stack.callback(share.socket.close)
        ShareMember(share, "workers", "payments").join()
        patient = {"transaction.timeout.ms": 600_000}
        producer = self._stack.enter_context(Producer(self.open, transactional_id="transfer-7", librdkafka=patient))
        transaction = producer.transaction()
        transaction.__enter__()
        self._stack.callback(_end, transaction)
        producer.send("payments", b"pending", partition=1)
        producer.flush()


def _end(transaction: Transaction) -> None:
    """Somebody may have aborted it, and fenced its producer."""
    with suppress(HeadraceError):
        transaction.__exit__(RuntimeError, RuntimeError("the test has ended"), None)


@contextmanager
def browser() -> Iterator["Browser"]:
    """Debian's chromium, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield running
        finally:
            running.close()


class Eyes:
    """A page, and all that the browser complained about while it was open."""

    def __init__(self, browser: "Browser", url: str, **context: Any) -> None:
        self.context = browser.new_context(base_url=url, **{"viewport": {"width": 1280, "height": 860}, **context})
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda told: self.complaints.append(told.text) if told.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def go(self, path: str) -> "Page":
        self.page.goto(f"/console{path}")
        return self.page

    def close(self) -> None:
        self.context.close()


class OpenIdProvider:
    """Lets everybody in as ann, after checking what a provider checks: the address to go back to, and PKCE."""

    def __init__(self, issuer: Issuer) -> None:
        self.asked: dict[str, str] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                if path == "/.well-known/openid-configuration":
                    self._say(
                        {"issuer": provider.url, "authorization_endpoint": f"{provider.url}/in", "token_endpoint": provider.url}
                    )
                    return
                provider.asked = dict(parse_qsl(query))
                self.send_response(302)
                self.send_header("Location", f"{provider.asked['redirect_uri']}?code=c0de&state={provider.asked['state']}")
                self.end_headers()

            def do_POST(self) -> None:
                told = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                challenge = urlsafe_b64encode(sha256(told["code_verifier"].encode()).digest()).decode().rstrip("=")
                is_right = told["code"] == "c0de" and challenge == provider.asked["code_challenge"]
                self._say({"access_token": issuer.token(), "expires_in": 3600} if is_right else {"error": "invalid_grant"})

            def _say(self, told: dict[str, Any]) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(told).encode())

            def log_message(self, *_: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
