"""Whether a broker is at a bootstrap address, before the first answer.

librdkafka tries an address that refuses, or where something else than a broker answers, for as long as it may, which is half a
minute of silence for somebody who has forgotten to start a broker, misspelt its name or taken another port for its.  So until a
broker has been reached once, we look for ourselves.  After that a broker that is away is expected to come back, and is waited
for.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from typing import Any, NamedTuple

from headrace.client.broker_connection import BrokerConnection, Endpoint, Unreachable, is_for_librdkafka_only, speaks_tls
from headrace.client.errors import BrokerTimeout, HeadraceError, SecurityFailed
from headrace.client.logs import log
from headrace.client.security.probes import ANSWER_BYTES, TLS_ALERT, begins_tls, first_bytes, greeting, is_of_broker
from headrace.client.security.tls import NoAnswer, protocol_of

ATTEMPT_S = 1.0
SIGN_IN_S = 8.0  # a wrong password is answered late, and where many failed each waits before
SLOW_ATTEMPT_S = 3.0
AGAIN_S = 0.1
LAST_WORD_S = 0.3
SILENCE_S_MAX = 10.0  # who accepts connections may only be slow, and has longer than who refuses them
DEFAULT_PORT = 9092
SILENT = "it accepts connections and does not answer"
_PROTOCOL = re.compile(r"^[A-Za-z_]+://")


class Found(NamedTuple):
    """Whether somebody is there who may be a broker; of each address that was tried, why it is none; and, where one is a broker
    that does not let us in, that."""

    is_there: bool
    why: dict[str, str]
    refusal: SecurityFailed | None = None


def look_for_broker(addresses: Iterable[str], config: Mapping[str, Any] | None = None, timeout: float = ATTEMPT_S) -> Found:
    """Stops at the first that answers as a broker does.  One that accepts and says nothing may only be slow: it counts as there,
    and is among the others all the same.  `config` are librdkafka's properties: where they ask for it, TLS is spoken and somebody
    signs in, too."""
    config = config or {}
    why: dict[str, str] = {}
    for text in addresses:
        try:
            reason = _reason(Endpoint(*address_of(text)), config, timeout)
        except SecurityFailed as error:
            return Found(False, why, error)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
        if reason is None:
            return Found(True, {})
        why[text.strip()] = reason
    return Found(SILENT in why.values(), why)


def _reason(endpoint: Endpoint, config: Mapping[str, Any], timeout: float) -> str | None:
    if protocol_of(config) == "plaintext":
        reason = _greet(endpoint, timeout)
        if reason is None:
            # It is a broker, whatever becomes of this; all that counts here is whether it wants somebody to sign in.
            with suppress(BrokerTimeout), closing(_connect(endpoint, config, timeout)) as connection:
                connection.require_that_nobody_has_to_sign_in()
        return reason
    if is_for_librdkafka_only(config):
        socket.create_connection((endpoint.host, endpoint.port), timeout=timeout).close()
        return None
    try:
        with closing(_connect(endpoint, config, max(timeout, SIGN_IN_S))) as connection:
            connection.require_that_nobody_has_to_sign_in()
    except NoAnswer:
        return SILENT
    except Unreachable as error:
        return error.reason
    except BrokerTimeout as error:
        return str(error)
    return None


def _connect(endpoint: Endpoint, config: Mapping[str, Any], timeout: float) -> BrokerConnection:
    return BrokerConnection(endpoint, config, client_id="headrace", timeout_s=timeout)


def _greet(endpoint: Endpoint, timeout: float) -> str | None:
    """None when a broker answers; else what is there instead."""
    with socket.create_connection((endpoint.host, endpoint.port), timeout=timeout) as connection:
        connection.sendall(greeting())
        answer: bytes | None = None
        try:
            answer = first_bytes(connection)
        except TimeoutError:
            # A server of lines has been waiting for the end of one; a slow broker takes this for the end, and just leaves.
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(LAST_WORD_S)
            with suppress(TimeoutError):
                answer = first_bytes(connection) or None
    if answer is None:
        return SILENT
    if answer.startswith(b"HTTP"):
        return "an HTTP server answers there, not a broker"
    if answer.startswith(TLS_ALERT):
        raise SecurityFailed(speaks_tls(str(endpoint)))
    if is_of_broker(answer):
        return None
    if len(answer) == ANSWER_BYTES:
        return "what answers there is no broker"
    if begins_tls(endpoint.host, endpoint.port, timeout):
        raise SecurityFailed(speaks_tls(str(endpoint)))
    return "the connection is closed without an answer: there is no broker, or one that wants TLS (security_protocol)"


class FirstContact:
    """Looks at most once every AGAIN_S, and no more once a broker has answered."""

    def __init__(self, config: Mapping[str, Any], patience: float, unless_within: float | None = None) -> None:
        """What is given up by itself within a time that is no longer than our patience needs no looking."""
        self.bootstrap = str(config["bootstrap.servers"])
        self.silent: str | None = None  # what to say of those who accept connections and no more
        self._config = config
        self.refusal: SecurityFailed | None = None  # a broker is there, and does not let us in
        self.made = unless_within is not None and unless_within <= patience
        self._silence_s = max(patience, SILENCE_S_MAX if unless_within is None else min(unless_within, SILENCE_S_MAX))
        self._attempt_s = min(ATTEMPT_S, max(patience, 0.1))
        self.why: str | None = None  # nobody was there, when we last looked for as long as our patience lasts
        self._patience = patience
        self._since: float | None = None
        self._looked_at = 0.0

    def require(self, give_up: Callable[[], bool] = lambda: False) -> None:
        """Return when a broker answers.

        Raises BrokerTimeout when none did for as long as our patience lasts, SecurityFailed when it does not let us in.
        """
        self._since = None
        while not self.made and not give_up():
            if self.is_overdue():
                raise self.error()
            if not self.made:
                time.sleep(AGAIN_S)

    def error(self) -> HeadraceError:
        """What there is to say when it is overdue."""
        return self.refusal or BrokerTimeout(self.why)

    def is_overdue(self) -> bool:
        """Look, if it is time to; whether nobody has been there since the first look of this round, for all our patience, or
        whoever is there does not let us in."""
        now = time.monotonic()
        if self.made or now - self._looked_at < AGAIN_S:
            return False
        self._looked_at = now
        self._since = self._since or now
        refusals = self._look()
        if self.made:
            self.why = None
        elif self.refusal is not None:
            self.why = str(self.refusal)
            return True
        elif time.monotonic() - self._since >= (patience := self._patience if self.silent is None else self._silence_s):
            self.why = f"no broker answers at {', '.join(refusals)}; gave up after {patience:g} s"
            self._since = None
            return True
        return False

    def _look(self) -> list[str]:
        """Why each address does not answer; stops at the first that does."""
        self.made, why, self.refusal = look_for_broker(self.bootstrap.split(","), self._config, self._attempt_s)
        refusals = [f"{address} ({reason})" for address, reason in why.items()]
        if self.made and refusals:
            # Nobody has answered yet.  Whoever is slow has twice as long the next time.
            self.made = False
            self._attempt_s = min(2 * self._attempt_s, SLOW_ATTEMPT_S)
            if self.silent is None:
                log.warning("waiting for an answer from %s", ", ".join(refusals))
            self.silent = SILENT
        else:
            self.silent = None
        return refusals


def address_of(text: str) -> tuple[str, int]:
    bare = _PROTOCOL.sub("", text.strip())
    host, colon, port = bare.rpartition(":")
    if not colon or not port.isdecimal():
        return bare.strip("[]"), DEFAULT_PORT
    return host.strip("[]"), int(port)
