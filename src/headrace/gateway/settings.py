"""What a gateway is told at its start, with the limits that hold where nothing is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

DEFAULT_LISTEN: Final = "127.0.0.1:8080"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one caller, one connection and all of them together may take."""

    body_bytes_max: int = 16 * 1024 * 1024
    header_bytes_max: int = 16 * 1024
    connections_max: int = 20_000
    header_seconds: float = 10.0  # from the connection, or the last answer, to the end of a request's headers
    body_seconds: float = 60.0  # for a whole body; in a stream, between two pieces
    request_seconds: float = 120.0
    idle_seconds: float = 75.0  # of a connection without a request
    stop_seconds: float = 10.0  # for what is under way when the process is told to stop
    requests_per_second: float = 0.0  # of one principal; 0 is no limit
    callers_max: int = 256
    caller_idle_seconds: float = 300.0
    members_max: int = 500
    member_idle_seconds: float = 300.0
    caller_age_seconds: float = 900.0  # then it signs in again: a right to sign in that was taken away ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The gateway's own certificate; with an authority, callers may show one of theirs."""

    certificate: Path
    key: Path | None = None
    client_authority: Path | None = None
    require_client: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """`properties` are librdkafka's, of the gateway itself: callers take only the way from them, never the credentials."""

    bootstrap: str
    properties: Mapping[str, Any] = field(default_factory=dict, repr=False)
    listen: str = DEFAULT_LISTEN
    metrics: str | None = None  # the address where its metrics are told
    advertise: str | None = None  # where other gateways reach this one, as a URL
    name: str | None = None
    tls: Tls | None = None
    sasl_mechanism: str | None = None  # by which Basic credentials are passed on
    identities: Path | None = None  # profiles by the name in a caller's certificate
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()  # names under which it is called where anybody may call it
    webhook_networks: tuple[str, ...] = ()  # private networks to which webhooks may go all the same
    webhook_http: bool = False  # whether they may go without TLS
    secret_key_file: Path | None = None  # with which secrets of subscriptions are sealed; the same for all gateways
    limits: Limits = Limits()
