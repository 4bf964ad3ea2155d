"""Signing in on the connections that are our own and not librdkafka's, from librdkafka's properties.

A mechanism is a generator of messages: it yields what to send and is sent what came back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from headrace.client.errors import InvalidArgument
from headrace.model.access.scram import ScramMechanism, salted_password
from headrace.model.access.scram_client import ScramClient

SIGNED_IN: Final = ("sasl_plaintext", "sasl_ssl")
OAUTHBEARER: Final = "OAUTHBEARER"
PLAIN: Final = "PLAIN"
KNOWN: Final = (PLAIN, *(each.title for each in ScramMechanism), OAUTHBEARER)
_SEPARATOR: Final = "\x01"

Messages = Generator[bytes, bytes, None]


def mechanism_of(config: Mapping[str, Any]) -> str:
    """As librdkafka takes it: two names, and Kerberos where nothing is said."""
    return str(config.get("sasl.mechanism") or config.get("sasl.mechanisms") or "GSSAPI").upper()


def names_mechanism(config: Mapping[str, Any]) -> bool:
    return bool(config.get("sasl.mechanism") or config.get("sasl.mechanisms"))


def is_foreign(config: Mapping[str, Any]) -> bool:
    """Whether only librdkafka can sign in so: by Kerberos, or with a token that it gets by itself."""
    mechanism = mechanism_of(config)
    return mechanism not in KNOWN or (mechanism == OAUTHBEARER and not callable(config.get("oauth_cb")))


def messages_of(config: Mapping[str, Any]) -> Messages:
    """The client's side of an exchange by the mechanism that is set.  Raises InvalidArgument when something is missing."""
    mechanism = mechanism_of(config)
    if mechanism == OAUTHBEARER:
        return _bearer(_token_source(config)(str(config.get("sasl.oauthbearer.config", "")))[0])
    user, password = config.get("sasl.username"), config.get("sasl.password")
    if mechanism not in KNOWN:
        raise InvalidArgument(f"sasl.mechanism={mechanism} is not known here; known: {', '.join(KNOWN)}")
    if not user or not password:
        raise InvalidArgument(f"sasl.mechanism={mechanism} needs sasl.username and sasl.password")
    if mechanism == PLAIN:
        return _plain(str(user), str(password))
    return _scram(next(each for each in ScramMechanism if each.title == mechanism), str(user), str(password))


def _token_source(config: Mapping[str, Any]) -> Callable[[str], tuple[str, float]]:
    source: Callable[[str], tuple[str, float]] | None = config.get("oauth_cb")
    if source is None:
        raise InvalidArgument("sasl.mechanism=OAUTHBEARER needs a token: give token or token_file")
    return source


def _plain(user: str, password: str) -> Messages:
    yield f"\0{user}\0{password}".encode()


def _bearer(token: str) -> Messages:
    """RFC 7628.  A refusal is a message to which an empty one has to follow."""
    answer = yield f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{_SEPARATOR}".encode()
    if answer:
        yield _SEPARATOR.encode()


def _scram(mechanism: ScramMechanism, user: str, password: str) -> Messages:
    scram = ScramClient(mechanism, user)
    salt, iterations = scram.take_challenge((yield scram.first))
    scram.verify((yield scram.final(salted_password(mechanism, password, salt, iterations))))
