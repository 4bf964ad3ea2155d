"""The listening side: an address, TLS, limits, and an end that lets what is under way finish."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

from aiohttp import web

from headrace.client.errors import InvalidArgument
from headrace.client.security.secret_files import require_private
from headrace.gateway.serving.connections import Connections
from headrace.gateway.settings import GatewaySettings, Tls

logger = logging.getLogger(__name__)

BACKLOG: Final = 1024
LOOK_FOR_CERTIFICATES_S: Final = 10.0


class Server:
    """Serves an application at one address."""

    def __init__(self, application: web.Application, settings: GatewaySettings) -> None:
        limits = settings.limits
        self._settings = settings
        self._runner = web.AppRunner(
            application,
            access_log=None,
            keepalive_timeout=limits.idle_seconds,
            max_line_size=limits.header_bytes_max,
            max_field_size=limits.header_bytes_max,
            shutdown_timeout=limits.stop_seconds,
        )
        self._context = None if settings.tls is None else server_context(settings.tls)
        self._server: asyncio.Server | None = None
        self._application = application
        self.address = ""

    async def start(self) -> None:
        """Listen.  Raises OSError where the address cannot be used."""
        host, port = listen_address(self._settings.listen)
        application, limits = self._application, self._settings.limits
        # The watch needs the server, which the runner makes from an application that is complete.
        connections: list[Connections] = []

        @web.middleware
        async def watch(request: web.Request, handler: object) -> web.StreamResponse:
            return await connections[0].watch(request, handler)  # type: ignore[arg-type]

        application.middlewares.insert(0, watch)
        await self._runner.setup()
        assert self._runner.server is not None
        connections.append(Connections(self._runner.server, limits))
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(connections[0], host, port, ssl=self._context, backlog=BACKLOG)
        shown = self._server.sockets[0].getsockname()
        self.address = f"{f'[{shown[0]}]' if ':' in shown[0] else shown[0]}:{shown[1]}"

    @property
    def connections(self) -> int:
        """How many there are."""
        return 0 if self._runner.server is None else len(self._runner.server.connections)

    @property
    def url(self) -> str:
        return f"{'http' if self._context is None else 'https'}://{self.address}"

    async def renew_certificates(self) -> None:
        """Take up certificates whose files have changed, for the connections to come."""
        tls, context = self._settings.tls, self._context
        if tls is None or context is None:
            return
        seen = _changed_at(tls)
        while True:
            await asyncio.sleep(LOOK_FOR_CERTIFICATES_S)
            if (found := _changed_at(tls)) != seen:
                try:
                    _take_over(context, server_context(tls))
                    seen = found
                    logger.info("took up the new certificate in %s", tls.certificate)
                except (OSError, InvalidArgument) as error:
                    logger.warning("the new certificate is not taken up, and the old one stays: %s", error)

    async def close(self) -> None:
        """Take no more connections, wait a while for what is under way, then end."""
        if self._server is not None:
            self._server.close()
        await self._runner.shutdown()
        await self._runner.cleanup()


def _take_over(listening: ssl.SSLContext, other: ssl.SSLContext) -> None:
    """Have all handshakes to come use the other.  Loaded into the same one, a certificate stands beside an older one whose key is
    of another kind, which most clients would still be shown, and a key that does not fit leaves it without any."""

    def on_hello(shaken: ssl.SSLObject, host: str | None, _: ssl.SSLContext) -> None:
        shaken.context = other

    listening.sni_callback = on_hello


def _changed_at(tls: Tls) -> tuple[int, ...]:
    files = [tls.certificate, *([tls.key] if tls.key else [])]
    try:
        return tuple(file.stat().st_mtime_ns for file in files)
    except OSError:
        return ()


def server_context(tls: Tls) -> ssl.SSLContext:
    """How TLS is spoken.  Raises InvalidArgument when a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: "")
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgument(f"the certificate {tls.certificate} cannot be used: {_reason(error)}") from None
    require_private(tls.key or tls.certificate, "--key" if tls.key else "--certificate", from_group=False)
    if tls.client_authority is not None:
        try:
            context.load_verify_locations(tls.client_authority)
        except (OSError, ssl.SSLError) as error:
            raise InvalidArgument(f"the authority {tls.client_authority} cannot be used: {_reason(error)}") from None
        context.verify_mode = ssl.CERT_REQUIRED if tls.require_client else ssl.CERT_OPTIONAL
    return context


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or getattr(error, "reason", None) or error)


def listen_address(text: str) -> tuple[str, int]:
    """HOST:PORT.  Raises InvalidArgument."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or Path(host).name != host:
        raise InvalidArgument(f"{text!r} is not HOST:PORT")
    return host.strip("[]") or "0.0.0.0", int(port)
