"""One request to an endpoint: the body, its signature, and what came of it."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin

import aiohttp
import orjson

from headrace.gateway.brokers.tails import Shown
from headrace.gateway.records.formats import document, shown
from headrace.gateway.serving.problems import Problem
from headrace.gateway.webhooks.guard import Guard
from headrace.gateway.webhooks.signing import signed_headers

REDIRECTS_MAX: Final = 3
ANSWER_BYTES_MAX: Final = 64 * 1024
CONNECTIONS_PER_HOST: Final = 64


@dataclass(frozen=True, slots=True)
class Outcome:
    """`status` is None where there was no answer; `error` says why."""

    status: int | None
    duration_ms: float
    error: str | None = None
    retry_after: str | None = None
    body: bytes = b""

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def body_of(records: list[Shown], form: str, batch: int) -> tuple[bytes, str]:
    """The body and its media type."""
    if form == "cloudevents":
        events = [_cloud_event(each) for each in records]
        if batch > 1:
            return orjson.dumps(events), "application/cloudevents-batch+json"
        return orjson.dumps(events[0]), "application/cloudevents+json"
    documents = [document(each, "auto", "auto") for each in records]
    return orjson.dumps({"records": documents} if batch > 1 else documents[0]), "application/json"


def _cloud_event(given: Shown) -> dict[str, Any]:
    """CloudEvents 1.0, structured."""
    record, place = given.record, given.place
    moment = time.gmtime(max(record.timestamp, 0) // 1000)
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"{place.topic}/{place.partition}/{record.offset}",
        "source": f"/topics/{place.topic}",
        "type": "headrace.record",
        "time": time.strftime("%Y-%m-%dT%H:%M:%S", moment) + f".{max(record.timestamp, 0) % 1000:03d}Z",
    }
    if record.key is not None:
        event["subject"] = event["partitionkey"] = record.key.decode(errors="replace")
    value, form = shown(record.value, "auto")
    if form == "binary":
        event |= {"datacontenttype": "application/octet-stream", "data_base64": base64.b64encode(record.value or b"").decode()}
    elif form is not None:
        event |= {"datacontenttype": "application/json" if form == "json" else "text/plain", "data": value}
    return event


class LeaseLost(Exception):
    """Whoever wanted to post may not any more."""


async def _still_ours(session: aiohttp.ClientSession, context: Any, parameters: Any) -> None:
    """Asked when there is a connection, and before anything is written to it: finding one may have taken longer than a lease."""
    if not context.trace_request_ctx():
        raise LeaseLost


class Poster:
    """Connections to endpoints, shared by all subscriptions."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=self._guard.resolver(), limit=0, limit_per_host=CONNECTIONS_PER_HOST, ttl_dns_cache=10
            )
            trace = aiohttp.TraceConfig()
            trace.on_connection_create_end.append(_still_ours)
            trace.on_connection_reuseconn.append(_still_ours)
            # Cookies, proxies and redirects of the library's own would go around the guard, or carry state between endpoints.
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                trace_configs=[trace],
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(
        self,
        url: str,
        body: bytes,
        media_type: str,
        message_id: str,
        good_secrets: list[str],
        timeout_s: float,
        may_post: Callable[[], bool] = lambda: True,
    ) -> Outcome:
        """Never raises for what an endpoint does; LeaseLost when `may_post` says no before anything was sent."""
        began = time.monotonic()
        headers = {
            **signed_headers(good_secrets, message_id, int(time.time()), body),
            "Content-Type": media_type,
            "User-Agent": "headrace-gateway",
        }

        def ended(status: int | None, **more: Any) -> Outcome:
            return Outcome(status, (time.monotonic() - began) * 1000, **more)

        try:
            async with asyncio.timeout(timeout_s):
                for _ in range(REDIRECTS_MAX + 1):
                    self._guard.check_url(url)
                    asked = self._open().post(url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=may_post)
                    async with asked as response:
                        if response.status in (307, 308) and "Location" in response.headers:
                            url = urljoin(url, response.headers["Location"])
                            continue
                        answer = await response.content.read(ANSWER_BYTES_MAX)
                        error = None if 200 <= response.status < 300 else f"the endpoint answered {response.status}"
                        return ended(response.status, error=error, retry_after=response.headers.get("Retry-After"), body=answer)
                return ended(None, error="the endpoint redirects without end")
        except TimeoutError:
            return ended(None, error=f"the endpoint did not answer within {timeout_s:g} s")
        except Problem as problem:
            return ended(None, error=problem.detail)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return ended(None, error=f"{type(error).__name__}: {error}")
