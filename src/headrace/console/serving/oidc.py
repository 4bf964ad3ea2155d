"""Signing in at an OpenID provider: the authorization code flow with PKCE (RFC 7636), for a token that the brokers take.

The console believes no token: it passes the access token on to the brokers, which check it, as they do with any client's.  An
attempt belongs to the browser that began it, by a cookie, so that nobody can be signed in as somebody else.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import orjson

from headrace.gateway.serving.problems import Problem

ATTEMPTS_MAX: Final = 1000
ATTEMPT_S: Final = 600.0
PATIENCE: Final = aiohttp.ClientTimeout(15)


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """`secret_file` only for a client that has a secret; a public one has none."""

    issuer: str
    client_id: str
    secret_file: Path | None = None
    scope: str = "openid"


@dataclass(slots=True)
class Attempt:
    """Somebody who went to the provider and has not come back yet."""

    verifier: str
    back_to: str
    to: str
    began: float


class Provider:
    """An OpenID provider, as its discovery document describes it."""

    def __init__(self, settings: OidcSettings, now: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._now = now
        self._attempts: dict[str, Attempt] = {}
        self._known: dict[str, Any] = {}

    async def begin(self, back_to: str, to: str) -> tuple[str, str]:
        """Where to send the browser, and the state that it keeps meanwhile.  `to` is the page that was asked for."""
        self._make_room()
        state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
        self._attempts[state] = Attempt(verifier, back_to, to, self._now())
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": back_to,
            "scope": self._settings.scope,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        address = (await self._discovered())["authorization_endpoint"]
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}", state

    async def finish(self, code: str, state: str, kept: str) -> tuple[str, float | None, str]:
        """The token, for how many seconds it is good, and the page to go to."""
        attempt = self._attempts.pop(state, None)
        if attempt is None or self._now() - attempt.began > ATTEMPT_S or not hmac.compare_digest(state.encode(), kept.encode()):
            raise _failed("This attempt to sign in is over, or was begun elsewhere.")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.back_to,
            "client_id": self._settings.client_id,
            "code_verifier": attempt.verifier,
        }
        told = await self._exchange(form)
        token, seconds = told.get("access_token"), told.get("expires_in")
        if not isinstance(token, str):
            raise _failed("The provider gave no access token.")
        return token, float(seconds) if isinstance(seconds, int | float) else None, attempt.to

    async def _exchange(self, form: dict[str, str]) -> dict[str, Any]:
        secret = self._settings.secret_file
        login = None if secret is None else aiohttp.BasicAuth(self._settings.client_id, secret.read_text().strip())
        address = (await self._discovered())["token_endpoint"]
        try:
            async with aiohttp.ClientSession(timeout=PATIENCE) as session, session.post(address, data=form, auth=login) as answer:
                told = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError):
            raise _failed("The provider does not answer.") from None
        if not isinstance(told, dict) or "error" in told:
            said = told.get("error_description") or told.get("error") if isinstance(told, dict) else "no JSON"
            raise _failed(f"The provider refuses: {str(said)[:200]}.")
        return told

    async def _discovered(self) -> dict[str, Any]:
        if not self._known:
            address = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            try:
                async with aiohttp.ClientSession(timeout=PATIENCE) as session, session.get(address) as answer:
                    found = await answer.json(content_type=None)
                # Nobody else may speak for the issuer (OpenID Connect Discovery, section 4.3).
                if found["issuer"].rstrip("/") != self._settings.issuer.rstrip("/"):
                    raise _failed("What answers at the issuer's address says that it is another one.")
                self._known = {name: found[name] for name in ("authorization_endpoint", "token_endpoint")}
            except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError):
                raise _failed("The provider does not say where to sign in.") from None
        return self._known

    def _make_room(self) -> None:
        oldest = self._now() - ATTEMPT_S
        for state in [state for state, attempt in self._attempts.items() if attempt.began < oldest]:
            del self._attempts[state]
        while len(self._attempts) >= ATTEMPTS_MAX:
            del self._attempts[next(iter(self._attempts))]


def shown_name(token: str) -> str | None:
    """Who a token says it is of, to be shown and for nothing else: nobody has checked it here."""
    try:
        middle = token.split(".")[1]
        told = orjson.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        found = told.get("preferred_username") or told.get("sub")
    except (IndexError, ValueError, AttributeError):
        return None
    return str(found)[:200] if found else None


def _failed(why: str) -> Problem:
    return Problem(401, "not_signed_in", why, "Try again at /console/; the operator of the console knows the provider.")
