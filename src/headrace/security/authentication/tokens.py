"""Tokens (JWT, RFC 7519): whose they are, if they are valid now, for us, from whom we trust, and allow enough."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from jwt import PyJWS, get_unverified_header

from headrace.declaring import dataclass
from headrace.model.access.principals import Principal, PrincipalError, group, user
from headrace.security.authentication.signing_keys import ALGORITHMS, SigningKeys

TOKEN_CHARACTERS_MAX: Final = 64 * 1024
GROUPS_MAX: Final = 200
INVALID_TOKEN: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_EXPIRY_S_MAX: Final = 2**50


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What a token has to say: `sasl.oauthbearer.expected.issuer` and its neighbours."""

    issuer: str
    audiences: frozenset[str]
    scopes: frozenset[str] = frozenset()  # all of them are needed
    scope_claim: str = "scope"
    user_claim: str = "sub"
    groups_claim: str | None = None
    clock_skew_s: float = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What a valid token says."""

    principal: Principal
    groups: tuple[Principal, ...]
    expires_at_ms: int


class TokenError(Exception):
    """The token is not valid.  `status` is what RFC 7628 has the client told, the text is for the audit."""

    def __init__(self, reason: str, status: str = INVALID_TOKEN) -> None:
        super().__init__(reason)
        self.status = status


def validated(token: str, keys: SigningKeys, rules: TokenRules, now_s: float) -> Token:
    """What the token says; raises TokenError."""
    claims = _signed_claims(token, keys)
    good_until_s = _check_times(claims, now_s, rules.clock_skew_s)
    if claims.get("iss") != rules.issuer:
        raise TokenError("another issuer's token")
    if rules.audiences.isdisjoint(_strings(claims, "aud")):
        raise TokenError("a token for another audience")
    missing = rules.scopes.difference(_words(claims, rules.scope_claim))
    if missing:
        raise TokenError(f"the token lacks the scope {' '.join(sorted(missing))}", INSUFFICIENT_SCOPE)
    try:
        return Token(
            principal=user(_string(claims, rules.user_claim)),
            groups=_groups(claims, rules.groups_claim),
            expires_at_ms=int(min(good_until_s, _EXPIRY_S_MAX) * 1000),
        )
    except PrincipalError as error:
        raise TokenError(str(error)) from None


def _signed_claims(token: str, keys: SigningKeys) -> Mapping[str, Any]:
    if len(token) > TOKEN_CHARACTERS_MAX or not _TOKEN.fullmatch(token):
        raise TokenError("not a signed token")
    try:
        header = get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenError("an algorithm that is not accepted")
        if "crit" in header:
            raise TokenError("the token has critical extensions, and none is known")
        if key_id is not None and not isinstance(key_id, str):
            raise TokenError("the key's name is no text")
        key = keys.find(key_id, algorithm)
        if key is None:
            raise TokenError("signed with a key that is not known")
        claims = json.loads(PyJWS().decode(token, key, algorithms=[algorithm]))
    except TokenError:
        raise
    except Exception as error:
        # Bytes of a stranger in somebody else's parser: whatever it is that fails, nobody is let in.
        raise TokenError(f"the token cannot be verified: {type(error).__name__}") from None
    if not isinstance(claims, dict):
        raise TokenError("the token holds no claims")
    return claims


def _check_times(claims: Mapping[str, Any], now_s: float, skew_s: float) -> float:
    """Until when it is valid by our clock, if it is so now: a session that ended sooner would end with the sign-in itself."""
    good_until_s = _time(claims, "exp") + skew_s
    if now_s >= good_until_s:
        raise TokenError("the token has expired")
    if _time(claims, "iat") > now_s + skew_s:
        raise TokenError("the token was issued in the future")
    if "nbf" in claims and _time(claims, "nbf") > now_s + skew_s:
        raise TokenError("the token is not valid yet")
    return good_until_s


def _time(claims: Mapping[str, Any], claim: str) -> float:
    value = claims.get(claim)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise TokenError(f"the claim {claim} is no time")
    return value


def _string(claims: Mapping[str, Any], claim: str) -> str:
    value = claims.get(claim)
    if not isinstance(value, str):
        raise TokenError(f"the claim {claim} is no text")
    return value


def _strings(claims: Mapping[str, Any], claim: str) -> list[str]:
    """A text, or a list of them."""
    value = claims.get(claim, [])
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise TokenError(f"the claim {claim} is no list of texts")
    return listed


def _words(claims: Mapping[str, Any], claim: str) -> set[str]:
    """A list of texts, or one with spaces between."""
    return {word for text in _strings(claims, claim) for word in text.split(" ")}


def _groups(claims: Mapping[str, Any], claim: str | None) -> tuple[Principal, ...]:
    names = [] if claim is None else _strings(claims, claim)
    if len(names) > GROUPS_MAX:
        raise TokenError(f"the token names {len(names)} groups")
    return tuple(group(name) for name in dict.fromkeys(names))
