"""An endpoint of webhooks: takes what is posted, remembers it, and answers as its test says."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self


class Posted(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = tuple[int, dict[str, str]]


class Endpoint:
    """`answer` says what is answered to a record; challenges are answered by themselves."""

    def __init__(self, answer: Callable[[Posted], Answer] | None = None) -> None:
        self.posted: list[Posted] = []
        self.challenged = 0
        self.answer = answer or (lambda posted: (200, {}))
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posted = Posted(self.path, {name.lower(): value for name, value in self.headers.items()}, body, time.monotonic())
                status, headers, answer = outer.take(posted)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *arguments: Any) -> None:
                """Tests have no use for it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def take(self, posted: Posted) -> tuple[int, dict[str, str], bytes]:
        if b"headrace.verification" in posted.body:
            self.challenged += 1
            return 200, {}, json.dumps({"challenge": posted.json["challenge"]}).encode()
        status, headers = self.answer(posted)
        with self._lock:
            self.posted.append(posted)
        return status, headers, b""

    def values(self) -> list[Any]:
        """The values of the records that came, one by one or in batches."""
        with self._lock:
            documents = [posted.json for posted in self.posted]
        return [record["value"] for each in documents for record in each.get("records", [each])]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True, name="endpoint").start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
