"""Who a request says it comes from, and librdkafka's properties with which the brokers are asked whether that is true.

The gateway checks nobody: credentials are passed on, and it is the brokers that let somebody in.  Always: of the gateway's own
properties a caller gets the way (addresses, TLS, trust), and never what the gateway itself signs in with.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headrace.client.errors import InvalidArgument
from headrace.client.security.connecting import way_to
from headrace.client.security.options import DEFAULT_MECHANISM
from headrace.client.security.sasl import OAUTHBEARER, mechanism_of
from headrace.client.security.tls import is_encrypted, protocol_of
from headrace.client.security.tokens import TokenSource
from headrace.gateway.serving.problems import Problem, unauthorized

ANONYMOUS: Final = "anonymous"
_OWN: Final = ("sasl.", "oauth_cb", "ssl.certificate", "ssl.key", "enable.sasl")
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9._@ -]{1,128}")


@dataclass(frozen=True, slots=True)
class Credentials:
    """`key` tells callers apart, and is nothing that can be signed in with; `kept` is what a webhook signs in with later."""

    key: str
    name: str
    properties: Mapping[str, Any] = field(repr=False)
    kept: Mapping[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """Makes credentials out of what a request carries."""

    properties: Mapping[str, Any] = field(repr=False)
    mechanism: str | None = None
    identities: Path | None = None

    def way(self) -> dict[str, Any]:
        """The gateway's way to the brokers, without anything that is the gateway's own."""
        return {name: value for name, value in self.properties.items() if not name.startswith(_OWN)}

    def of(self, authorization: str | None, certificate: Mapping[str, Any] | None) -> Credentials:
        """By what the request says first: a header counts more than a certificate."""
        if authorization is None:
            named = None if certificate is None else _common_name(certificate)
            return self.anonymous() if named is None else self.identity(named)
        scheme, _, rest = authorization.partition(" ")
        match scheme.lower():
            case "basic":
                return self.basic(*_basic(rest))
            case "bearer" if rest.strip():
                return self.bearer(rest.strip())
        raise unauthorized("The Authorization header is neither Basic nor Bearer.")

    def anonymous(self) -> Credentials:
        if "sasl" in protocol_of(self.properties):
            raise unauthorized("The brokers want their clients to sign in, and this request has no credentials.")
        return Credentials("anonymous", ANONYMOUS, self.way(), {})

    def basic(self, username: str, password: str) -> Credentials:
        mechanism = self._password_mechanism()
        properties = {
            **self.way(),
            "security.protocol": self._signed_in(),
            "sasl.mechanism": mechanism,
            "sasl.username": username,
            "sasl.password": password,
        }
        kept = {"username": username, "password": password}
        return Credentials(_digest("basic", mechanism, username, password), username, properties, kept)

    def bearer(self, token: str) -> Credentials:
        properties = {
            **self.way(),
            "security.protocol": self._signed_in(),
            "sasl.mechanism": OAUTHBEARER,
            "oauth_cb": TokenSource(token),
        }
        digest = _digest("bearer", token)
        return Credentials(digest, f"bearer {digest[:12]}", properties)

    def identity(self, named: str) -> Credentials:
        """Somebody with a certificate: the profile of that name says how the brokers are asked as them."""
        if self.identities is None or not _SAFE_NAME.fullmatch(named) or named.startswith("."):
            raise unauthorized("The client certificate is nobody's that this gateway has an identity for (--identities).")
        file = self.identities / f"{named}.toml"
        if not file.is_file():
            raise unauthorized("The client certificate is nobody's that this gateway has an identity for (--identities).")
        try:
            way = way_to(str(self.properties.get("bootstrap.servers", "")) or None, {"profile": str(file)})
        except InvalidArgument as error:
            raise Problem(503, "identity_unusable", f"The identity of this certificate: {error}.", "Tell the operator.") from None
        return Credentials(_digest("identity", named), named, {**self.way(), **way.properties}, {"identity": named})

    def kept(self, kept: Mapping[str, str]) -> Credentials:
        """What was kept of somebody's credentials, as credentials again."""
        if "identity" in kept:
            return self.identity(kept["identity"])
        if "username" in kept:
            return self.basic(kept["username"], kept["password"])
        return self.anonymous()

    def _signed_in(self) -> str:
        protocol = protocol_of(self.properties)
        if "sasl" not in protocol:
            raise unauthorized("The brokers take no credentials at the listener that this gateway uses; send none.")
        return protocol.upper()

    def _password_mechanism(self) -> str:
        if self.mechanism is not None:
            return self.mechanism
        own = mechanism_of(self.properties)
        return own if own in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") else DEFAULT_MECHANISM


def sends_passwords_in_the_clear(properties: Mapping[str, Any]) -> bool:
    return "sasl" in protocol_of(properties) and not is_encrypted(properties)


def _basic(encoded: str) -> tuple[str, str]:
    try:
        username, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise unauthorized("The Basic credentials are not base64 of a name, a colon and a password.") from None
    if not colon or not username or not password or "\0" in username + password:
        raise unauthorized("The Basic credentials lack a name or a password.")
    return username, password


def _common_name(certificate: Mapping[str, Any]) -> str | None:
    for part in certificate.get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return None


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=24).hexdigest()
