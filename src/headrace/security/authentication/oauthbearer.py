"""SASL OAUTHBEARER (RFC 7628), the broker's side: a token in one message.

A token that is not valid is answered with JSON that says why, as far as a client may know; the client acknowledges it with one
byte, and only then is the exchange refused.
"""

import json
import re
from collections.abc import Callable
from typing import Final

from headrace.security.authentication.exchange import Authenticated, Challenge, Exchange, RefusalError, Refused
from headrace.security.authentication.scram_messages import unescaped
from headrace.security.authentication.signing_keys import SigningKeys
from headrace.security.authentication.tokens import INSUFFICIENT_SCOPE, TokenError, TokenRules, validated

OAUTHBEARER: Final = "OAUTHBEARER"
_HEADER: Final = re.compile(r"[ny],(?:a=(?P<authorization_id>(?:[^\x00,=]|=2C|=3D)+))?,")
_PAIR: Final = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>[\x20-\x7e\t\r\n]+)")
_BEARER: Final = re.compile(r"bearer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)


class OAuthBearerExchange(Exchange):
    """One token, and perhaps one byte after it."""

    def __init__(self, keys: SigningKeys, rules: TokenRules, now_s: Callable[[], float]) -> None:
        super().__init__(OAUTHBEARER)
        self._keys = keys
        self._rules = rules
        self._now_s = now_s

    def _step(self, message: bytes) -> Challenge | Authenticated:
        if self.failed is not None:
            raise RefusalError(self.failed.reason, self.failed.message)
        authorization_id, token = _read(message)
        try:
            valid = validated(token, self._keys, self._rules, self._now_s())
        except TokenError as error:
            told = self._error(error.status)
            self.failed = Refused(told, str(error))
            return Challenge(told.encode())
        if authorization_id not in ("", valid.principal.name):
            raise RefusalError("an authorization id that is not the token's")
        return Authenticated(principal=valid.principal, groups=valid.groups, expires_at_ms=valid.expires_at_ms)

    def _error(self, status: str) -> str:
        """As Kafka writes it."""
        scope = f', "scope":{json.dumps(" ".join(sorted(self._rules.scopes)))}' if status == INSUFFICIENT_SCOPE else ""
        return f'{{"status":"{status}"{scope}}}'


def _read(message: bytes) -> tuple[str, str]:
    """The authorization id and the token."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise RefusalError("the message is not UTF-8") from None
    header, separator, rest = text.partition("\x01")
    found = _HEADER.fullmatch(header)
    if found is None or not separator or not rest.endswith("\x01\x01"):
        raise RefusalError("the message is malformed")
    pairs = [_PAIR.fullmatch(pair) for pair in rest[:-2].split("\x01")]
    values = [pair["value"] for pair in pairs if pair is not None and pair["key"] == "auth"]
    bearer = _BEARER.fullmatch(values[0]) if len(values) == 1 and None not in pairs else None
    if bearer is None:
        raise RefusalError("the message does not hold one token")
    return unescaped(found["authorization_id"] or ""), bearer["token"]
