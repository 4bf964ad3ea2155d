"""How to get in: what follows from what is given, and what contradicts itself."""

import asyncio
import base64
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from headrace import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, InvalidArgument, Producer
from headrace.client.security.options import properties_of
from headrace.client.security.tokens import TokenSource


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def jwt(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.signature"


def test_what_is_left_out_follows_from_the_rest(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("")
    password = private(tmp_path / "password", "secret\nnot this\n")

    assert properties_of({}) == {}
    assert properties_of({"ca_file": authority}) == {"security.protocol": "SSL", "ssl.ca.location": str(authority)}
    assert properties_of({"username": "ann", "password_file": password}) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "secret",
    }
    found = properties_of({"token": "abc", "security_protocol": "SASL_PLAINTEXT"})
    assert (found["security.protocol"], found["sasl.mechanism"]) == ("SASL_PLAINTEXT", "OAUTHBEARER")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"password": "a"}, "password needs username beside it"),
        ({"username": "ann"}, "username needs password or password_file beside it"),
        ({"username": "ann", "password": "a", "password_file": "b"}, "password and password_file do not go together"),
        ({"username": "ann", "password": "a", "token": "t"}, "username and token do not go together"),
        ({"token": "t", "token_file": "f"}, "token and token_file do not go together"),
        ({"token": "t", "sasl_mechanism": "PLAIN"}, "sasl_mechanism PLAIN takes username and a password, not a token"),
        ({"username": "a", "password": "a", "sasl_mechanism": "OAUTHBEARER"}, "OAUTHBEARER takes a token, not username"),
        (
            {"security_protocol": "SSL", "username": "ann", "password": "a"},
            "SSL does not go with username; use SASL_SSL to sign in",
        ),
        ({"security_protocol": "SASL_SSL"}, "SASL_SSL needs username and a password, or a token"),
        ({"security_protocol": "PLAINTEXT", "ca_file": "ca.pem"}, "PLAINTEXT does not go with ca_file; use SSL for TLS"),
        ({"key_file": "k.pem"}, "key_file needs certificate_file beside it"),
        ({"security_protocol": "TLS"}, "security_protocol='TLS' is not accepted; accepted: 'PLAINTEXT', 'SSL'"),
        ({"sasl_mechanism": "GSSAPI"}, "sasl_mechanism='GSSAPI' is not accepted"),
        ({"ca_file": "/nowhere/ca.pem"}, "ca_file /nowhere/ca.pem does not exist"),
        ({"username": "ann", "password_file": "/nowhere/p"}, "password_file /nowhere/p cannot be read: No such file"),
    ],
)
def test_what_contradicts_itself_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        properties_of(given)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_secret_that_others_may_read_is_refused_with_what_to_do(tmp_path: Path, mode: int) -> None:
    key = private(tmp_path / "key.pem", "-----BEGIN PRIVATE KEY-----\n")
    for name, given in (
        ("password_file", {"username": "ann", "password_file": key}),
        ("token_file", {"token_file": key}),
        ("certificate_file", {"certificate_file": key}),
        ("key_file", {"certificate_file": private(tmp_path / "c.pem", ""), "key_file": key}),
    ):
        properties_of(given)
        key.chmod(mode)
        with pytest.raises(InvalidArgument, match=f"{name} {key} holds a secret, and others may read it; run: chmod 600 {key}"):
            properties_of(given)
        key.chmod(0o600)


def test_a_token_is_asked_for_anew_and_says_when_it_expires(tmp_path: Path) -> None:
    tokens = iter([jwt(exp=100), jwt(exp=200)])
    source = TokenSource(lambda: next(tokens))
    assert [source("")[1], source("")[1]] == [100, 200]

    file = private(tmp_path / "token", jwt(exp=300) + "\n")
    from_file = pickle.loads(pickle.dumps(TokenSource(file=file)))
    assert from_file("") == (jwt(exp=300), 300)
    private(file, "opaque")
    assert from_file("")[0] == "opaque"
    assert "opaque" not in repr(TokenSource("opaque"))


@pytest.mark.parametrize("client", [Producer, Admin, Consumer, AsyncProducer, AsyncAdmin, AsyncConsumer])
def test_every_client_takes_them_and_names_what_it_does_not_know(client: Any) -> None:
    topics = ("t",) if "Consumer" in client.__name__ else ()

    async def make(**options: Any) -> Any:
        return client(*topics, **options)

    with pytest.raises(TypeError, match=r"got an unexpected keyword argument 'pasword'\. Did you mean 'password'\?"):
        asyncio.run(make(username="ann", pasword="secret"))
    with pytest.raises(InvalidArgument, match="username needs password or password_file"):
        asyncio.run(make(username="ann"))
