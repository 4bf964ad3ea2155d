"""SASL OAUTHBEARER: tokens, good and bad, and the frame around them."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from headrace.model.access.principals import group, user
from headrace.model.errors import ErrorCode
from headrace.security.authentication.exchange import Authenticated, Challenge, Outcome, Refused
from headrace.security.authentication.oauthbearer import OAuthBearerExchange
from headrace.security.authentication.session import SaslSession
from headrace.security.authentication.signing_keys import ALGORITHMS, SigningKeys
from headrace.security.authentication.tokens import GROUPS_MAX, TokenError, TokenRules, validated

NOW = 1_800_000_000
RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
P256, P384, P521 = (ec.generate_private_key(curve()) for curve in (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1))
ED = ed25519.Ed25519PrivateKey.generate()


def jwk(key: Any, key_id: str, **more: Any) -> dict[str, Any]:
    reader: dict[type, Any] = {
        rsa.RSAPrivateKey: RSAAlgorithm,
        ec.EllipticCurvePrivateKey: ECAlgorithm,
        ed25519.Ed25519PrivateKey: OKPAlgorithm,
    }
    writes = next(algorithm for kind, algorithm in reader.items() if isinstance(key, kind))
    return json.loads(writes.to_jwk(key.public_key())) | {"kid": key_id} | more


DOCUMENT = {"keys": [jwk(RSA, "rsa"), jwk(P256, "p256"), jwk(P384, "p384"), jwk(P521, "p521"), jwk(ED, "ed")]}
RULES = TokenRules(issuer="https://issuer", audiences=frozenset({"headrace"}), groups_claim="groups")
CLAIMS = {"iss": "https://issuer", "aud": "headrace", "sub": "ann", "exp": NOW + 600, "iat": NOW - 10, "scope": "read write"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def signing_keys(document: dict[str, Any] = DOCUMENT) -> SigningKeys:
    return SigningKeys(document, lambda: None, Clock())


def signed(claims: dict[str, Any] | None = None, key: Any = RSA, algorithm: str = "RS256", **header: Any) -> str:
    headers = {"kid": "rsa"} | header
    body = json.dumps(CLAIMS if claims is None else claims).encode()
    return jwt.PyJWS().encode(body, key, algorithm, {name: value for name, value in headers.items() if value is not None})


def exchange(rules: TokenRules = RULES, keys: SigningKeys | None = None) -> OAuthBearerExchange:
    return OAuthBearerExchange(keys or signing_keys(), rules, lambda: NOW)


def framed(token: str, header: str = "n,,", more: str = "") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01{more}\x01".encode()


def signed_in(token: str, rules: TokenRules = RULES, **options: Any) -> Outcome:
    return exchange(rules, **options).respond(framed(token))


@pytest.mark.parametrize(
    ("algorithm", "key", "key_id"),
    [
        *((each, RSA, "rsa") for each in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        ("ES256", P256, "p256"),
        ("ES384", P384, "p384"),
        ("ES512", P521, "p521"),
        ("EdDSA", ED, "ed"),
    ],
)
def test_a_token_of_each_accepted_algorithm_lets_its_owner_in(algorithm: str, key: Any, key_id: str) -> None:
    assert algorithm in ALGORITHMS
    assert signed_in(signed(key=key, algorithm=algorithm, kid=key_id)) == Authenticated(
        principal=user("ann"), expires_at_ms=(NOW + 600 + 30) * 1000
    )


def test_groups_come_from_a_claim() -> None:
    outcome = signed_in(signed(CLAIMS | {"groups": ["ops", "dev", "ops"]}))

    assert isinstance(outcome, Authenticated)
    assert outcome.groups == (group("ops"), group("dev"))


def test_the_user_can_come_from_another_claim() -> None:
    rules = TokenRules(issuer="https://issuer", audiences=frozenset({"headrace"}), user_claim="email")

    outcome = signed_in(signed(CLAIMS | {"email": "ann@acme.example"}), rules)

    assert isinstance(outcome, Authenticated)
    assert outcome.principal == user("ann@acme.example")
    assert outcome.groups == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other"},
        {"iss": None},
        {"iss": ["https://issuer"]},
        {"aud": "other"},
        {"aud": []},
        {"aud": None},
        {"aud": {"headrace": 1}},
        {"aud": "headrace "},
        {"exp": NOW - 30},
        {"exp": None},
        {"exp": "never"},
        {"exp": True},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"exp": -1},
        {"iat": NOW + 31},
        {"iat": None},
        {"nbf": NOW + 31},
        {"nbf": "now"},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "ann\n"},
        {"sub": ["ann"]},
        {"scope": 7},
        {"groups": "\u202e"},
        {"groups": [7]},
        {"groups": [f"g{number}" for number in range(GROUPS_MAX + 1)]},
    ],
)
def test_a_token_that_says_something_else_is_refused(changes: dict[str, Any]) -> None:
    claims = {name: value for name, value in (CLAIMS | changes).items() if value is not None}

    outcome = signed_in(signed(claims))

    assert outcome == Challenge(b'{"status":"invalid_token"}')


@pytest.mark.parametrize(
    "changes", [{"exp": NOW - 29}, {"iat": NOW + 30}, {"nbf": NOW + 30}, {"aud": ["x", "headrace"]}, {"exp": NOW + 0.5}]
)
def test_clocks_may_differ_a_little(changes: dict[str, Any]) -> None:
    connection = SaslSession({"OAUTHBEARER": exchange})
    connection.on_handshake("OAUTHBEARER", 1, NOW * 1000)

    reply = connection.on_token(framed(signed(CLAIMS | changes)), NOW * 1000)

    assert (reply.error_code, connection.principal) == (ErrorCode.NONE, user("ann"))
    assert connection.may_ask(NOW * 1000 + 999)


def test_an_expiry_in_a_distant_future_still_fits_the_wire() -> None:
    outcome = signed_in(signed(CLAIMS | {"exp": 10**300}))

    assert isinstance(outcome, Authenticated)
    assert outcome.expires_at_ms is not None
    assert outcome.expires_at_ms < 2**63


@pytest.mark.parametrize(("scope", "enough"), [("read write", True), (["read", "write"], True), ("read", False), (None, False)])
def test_a_scope_that_is_asked_for_has_to_be_there(scope: object, enough: bool) -> None:
    rules = TokenRules(issuer="https://issuer", audiences=frozenset({"headrace"}), scopes=frozenset({"read", "write"}))
    claims = {name: value for name, value in (CLAIMS | {"scope": scope}).items() if value is not None}

    outcome = signed_in(signed(claims), rules)

    if enough:
        assert isinstance(outcome, Authenticated)
    else:
        assert outcome == Challenge(b'{"status":"insufficient_scope", "scope":"read write"}')


def unsigned(header: dict[str, Any], signature: str = "", claims: dict[str, Any] = CLAIMS) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part(header)}.{part(claims)}.{signature}"


def signed_with_the_public_key() -> str:
    """The old trick: HS256 with the issuer's public key as the secret."""
    pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    message = unsigned({"alg": "HS256", "kid": "rsa"}).rpartition(".")[0]
    return (
        message + "." + base64.urlsafe_b64encode(hmac.new(pem, message.encode(), hashlib.sha256).digest()).rstrip(b"=").decode()
    )


BAD_TOKENS = {
    "algorithm none": unsigned({"alg": "none"}),
    "algorithm none, signed": unsigned({"alg": "none"}, "x"),
    "algorithm None": unsigned({"alg": "None", "kid": "rsa"}, "x"),
    "no algorithm": unsigned({"kid": "rsa"}, "x"),
    "a list of algorithms": unsigned({"alg": ["RS256"], "kid": "rsa"}, "x"),
    "a key id that is a number": unsigned({"alg": "RS256", "kid": 7}, "x"),
    "another signature": unsigned({"alg": "RS256", "kid": "rsa"}, "AAAA"),
    "signed with the public key": signed_with_the_public_key(),
    "a shared secret": jwt.encode(CLAIMS, "x" * 64, "HS256", {"kid": "rsa"}),
    "another key": signed(key=OTHER_RSA),
    "its own key in the header": signed(key=OTHER_RSA, jwk=jwk(OTHER_RSA, "rsa")),
    "addresses of keys in the header": signed(key=OTHER_RSA, jku="https://attacker", x5u="https://attacker"),
    "an unknown key": signed(key=OTHER_RSA, kid="unknown"),
    "a key of another kind": signed(key=P256, algorithm="ES256", kid="rsa"),
    "the name of another key": signed(kid="p256"),
    "a path as the key id": signed(kid="../../etc/passwd"),
    "critical extensions": signed(crit=["exp"]),
    "no base64": "a.b.c",
    "nothing inside": "e30.e30.e30",
    "nested too deep": f"{base64.urlsafe_b64encode(b'[' * 20_000).decode().rstrip('=')}.e30.e30",
    "too long": "x" * 70_000,
}


# Keys are made anew in each process, and so are tokens: tests are called by what is wrong with them.
@pytest.mark.parametrize("wrong", BAD_TOKENS)
def test_a_token_with_another_key_or_algorithm_is_refused(wrong: str) -> None:
    outcome = signed_in(BAD_TOKENS[wrong])

    assert outcome == Challenge(b'{"status":"invalid_token"}')


def test_a_token_without_a_key_id_is_checked_where_only_one_key_fits() -> None:
    assert isinstance(signed_in(signed(kid=None)), Authenticated)

    two = {"keys": [jwk(RSA, "one"), jwk(OTHER_RSA, "two")]}
    assert isinstance(signed_in(signed(kid=None), keys=signing_keys(two)), Challenge)


def test_what_a_signature_covers_is_every_byte() -> None:
    token = signed()
    keys = signing_keys()
    head, claims, signature = token.split(".")

    for position in range(0, len(head) + 1 + len(claims), 7):
        other = "A" if token[position] != "A" else "B"
        with pytest.raises(TokenError):
            validated(token[:position] + other + token[position + 1 :], keys, RULES, NOW)
    with pytest.raises(TokenError):
        validated(f"{head}.{claims}.{'A' * len(signature)}", keys, RULES, NOW)


@pytest.mark.parametrize(
    "key",
    [
        jwk(RSA, "rsa", use="enc"),
        jwk(RSA, "rsa", key_ops=["encrypt"]),
        jwk(RSA, "rsa", alg="PS256"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "rsa"},
        {"kty": "RSA", "kid": "rsa"},
        {"kty": "RSA", "n": 7, "e": [], "kid": "rsa"},
        jwk(rsa.generate_private_key(65537, 1024), "rsa"),
        "a text",
    ],
)
def test_a_key_that_is_not_for_this_is_not_used(key: Any) -> None:
    keys = signing_keys({"keys": [key, jwk(P256, "other")]})

    assert keys.find("rsa", "RS256") is None


@pytest.mark.parametrize("document", [{}, {"keys": {}}, {"keys": []}, {"keys": [{"kty": "oct", "k": "eA"}]}, [], None])
def test_a_document_without_keys_is_refused_and_the_old_keys_stay(document: Any) -> None:
    keys = signing_keys()

    with pytest.raises(ValueError):
        keys.replace(document)

    assert keys.find("rsa", "RS256") is not None


def test_new_keys_replace_old_ones() -> None:
    keys = signing_keys({"keys": [jwk(RSA, "old")]})

    keys.replace({"keys": [jwk(OTHER_RSA, "new")]})

    assert isinstance(signed_in(signed(key=OTHER_RSA, kid="new"), keys=keys), Authenticated)
    assert isinstance(signed_in(signed(kid="old"), keys=keys), Challenge)


def test_an_unknown_key_asks_for_the_document_again_but_not_often() -> None:
    clock, asked = Clock(), []
    keys = SigningKeys(DOCUMENT, lambda: asked.append(clock.now), clock, refresh_interval_s=10)

    for clock.now in (0.0, 0.1, 9.9, 10.0, 10.1, 25.0):
        for number in range(50):
            assert keys.find(f"unknown{number}", "RS256") is None
    assert keys.find("rsa", "RS256") is not None

    assert asked == [0.0, 10.0, 25.0]


def test_a_refusal_is_told_for_the_audit_at_once_and_no_second_time() -> None:
    connection = SaslSession({"OAUTHBEARER": exchange})
    connection.on_handshake("OAUTHBEARER", 1, 0)

    challenged = connection.on_token(framed(signed(CLAIMS | {"exp": 1})), 0)
    ended = connection.on_token(b"\x01", 0)

    assert challenged.refused is not None
    assert challenged.refused.reason == "the token has expired"
    assert (ended.error_code, ended.refused) == (ErrorCode.SASL_AUTHENTICATION_FAILED, None)


def test_a_refusal_is_acknowledged_with_one_byte_and_ends_the_exchange() -> None:
    server = exchange()
    challenge = server.respond(framed(signed(CLAIMS | {"exp": 1})))

    refused = server.respond(b"\x01")

    assert isinstance(challenge, Challenge)
    assert refused == Refused('{"status":"invalid_token"}', "the token has expired")
    assert isinstance(server.respond(framed(signed())), Refused)


def test_a_better_token_after_a_bad_one_comes_too_late() -> None:
    server = exchange()
    server.respond(framed(signed(CLAIMS | {"exp": 1})))

    assert isinstance(server.respond(framed(signed())), Refused)


@pytest.mark.parametrize("header", ["n,,", "y,,", "n,a=ann,"])
@pytest.mark.parametrize("more", ["", "host=broker\x01port=9092\x01", "traceId=1\x01"])
def test_the_frame_may_name_the_user_and_hold_extensions(header: str, more: str) -> None:
    assert isinstance(exchange().respond(framed(signed(), header, more)), Authenticated)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,auth=Bearer x\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer x y\x01\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer x\x01\x01",
        b"n,,\x01host=x\x01\x01",
        b"n,,\x011=x\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,a=,\x01auth=Bearer x\x01\x01",
    ],
)
def test_a_frame_that_is_wrong_is_refused(message: bytes) -> None:
    assert isinstance(exchange().respond(message), Refused)


def test_another_authorization_id_than_the_tokens_user_is_refused() -> None:
    assert isinstance(exchange().respond(framed(signed(), "n,a=bob,")), Refused)


def test_a_message_cut_off_at_every_byte_lets_nobody_in() -> None:
    whole, keys = framed(signed()), signing_keys()

    for length in range(len(whole)):
        assert isinstance(exchange(keys=keys).respond(whole[:length]), Refused)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: b"n,,\x01auth=Bearer " + data + b"\x01\x01")))
def test_whatever_arrives_is_answered_and_lets_nobody_in(messages: list[bytes]) -> None:
    server = exchange(keys=SHARED)

    for message in messages:
        assert isinstance(server.respond(message), Challenge | Refused)


SHARED = signing_keys()


def test_a_refusal_does_not_repeat_the_token() -> None:
    token = signed(CLAIMS | {"aud": "other"})
    server = exchange()

    told = [str(server.respond(framed(token))), str(server.respond(b"\x01"))]

    assert not any(part in text for text in told for part in token.split("."))
