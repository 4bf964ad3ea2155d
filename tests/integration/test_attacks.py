"""A broker with every lock on, and those who try them: strangers, replays, forged tokens, names that look like others'."""

import contextlib
import hmac
import json
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from headrace.broker.routes import APIS
from headrace.broker.tls import tls
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.testing.security import add_users
from headrace.wire.apis import ApiKey
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.certificates import Authority
from tests.support.filled import error_codes, filled
from tests.support.issuer import ISSUER, Issuer
from tests.support.raw import RawClient, frame
from tests.support.sasl import bearer, handshake, say, say_bare, scram, scram_final
from tests.support.waiting import until

SIGNING_IN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
ALL = MetadataRequest(topics=())
APIS_ASKED = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
NOT_FOR_THEM = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
MECHANISMS = "SCRAM-SHA-256,PLAIN,OAUTHBEARER"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("attacks"))


@pytest.fixture(scope="module")
def issuer(authority: Authority) -> Issuer:
    return Issuer(authority.folder)


@pytest.fixture(scope="module")
def broker(authority: Authority, issuer: Issuer) -> Iterator[Broker]:
    given = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.location": authority.of_broker(),
        "ssl.truststore.location": authority.file,
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
        "sasl.enabled.mechanisms": MECHANISMS,
        "headrace.sasl.plain.without.tls": True,
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{issuer.file}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": "headrace",
        "sasl.oauthbearer.scope.claim.name": "may",
        "headrace.sasl.oauthbearer.required.scopes": "kafka",
        "headrace.sasl.oauthbearer.groups.claim.name": "groups",
        "connection.failed.authentication.delay.ms": 0,
        "authorizer": "acl",
        "super.users": "User:root;Group:admins",
    }
    with Broker(settings=given) as running:
        running.call(add_users(running.broker, {"ann": "secret", "root": "hidden"}))  # type: ignore[arg-type]
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as connected:
        yield connected


def is_let_in(client: RawClient) -> bool:
    try:
        return bool(client.call(ALL, 12).brokers)
    except ConnectionError:
        return False


def may_sign_in(broker: Broker, token: str) -> bool:
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
        handshake(client, "OAUTHBEARER")
        reply = say(client, bearer(token))
        return bool(reply.error_code == 0 and not reply.auth_bytes) and is_let_in(client)


# -- before anybody has signed in


@pytest.mark.parametrize("key", sorted(set(APIS) - SIGNING_IN), ids=lambda key: ApiKey(key).name)
def test_nothing_is_answered_before_signing_in_but_what_serves_to_sign_in(broker: Broker, key: ApiKey) -> None:
    version = APIS[key].versions.stop - 1
    request = filled(ApiKey(key), version, {"records": b""})
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as early, RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as amid:
        early.send(frame(request, version))
        assert early.is_closed_by_broker()
        handshake(amid, "SCRAM-SHA-256")
        amid.send(frame(request, version))
        assert amid.is_closed_by_broker()


@pytest.mark.parametrize("mechanism", [*MECHANISMS.split(","), "plain", "SCRAM-SHA-1", "GSSAPI", "EXTERNAL", "ANONYMOUS", ""])
def test_a_mechanism_is_offered_by_its_exact_name_or_not_at_all(client: RawClient, mechanism: str) -> None:
    offered = handshake(client, mechanism).error_code == 0

    assert offered == (mechanism in MECHANISMS.split(","))


@pytest.mark.parametrize(
    "steps",
    [
        [("token", b"\0ann\0secret")],
        [("choose", "PLAIN"), ("choose", "PLAIN"), ("token", b"\0ann\0secret")],
        [("choose", "SCRAM-SHA-256"), ("token", b"\0ann\0secret")],
        [("choose", "SCRAM-SHA-256"), ("choose", "PLAIN"), ("token", b"\0ann\0secret")],
        [("choose", "PLAIN"), ("token", b""), ("token", b"\0ann\0secret")],
        [("choose", "OAUTHBEARER"), ("token", b"\x01"), ("token", b"\0ann\0secret")],
        [("choose", "PLAIN"), ("token", b"\0ann\0wrong"), ("token", b"\0ann\0secret")],
    ],
    ids=str,
)
def test_what_is_said_out_of_order_lets_nobody_in(client: RawClient, steps: list[tuple[str, Any]]) -> None:
    with contextlib.suppress(ConnectionError):
        for step, what in steps:
            handshake(client, what) if step == "choose" else say(client, what)

    assert not is_let_in(client)


def test_a_request_that_is_announced_larger_than_strangers_may_send_is_not_waited_for(client: RawClient) -> None:
    client.send((524_289).to_bytes(4, "big"))

    assert client.is_closed_by_broker()


def test_a_length_that_is_negative_ends_the_connection(client: RawClient) -> None:
    client.send((-1).to_bytes(4, "big", signed=True))

    assert client.is_closed_by_broker()


def test_every_frame_of_a_sign_in_cut_off_at_every_byte_lets_nobody_in(broker: Broker) -> None:
    whole = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1) + frame(SaslAuthenticateRequest(auth_bytes=b"\0ann\0secret"), 2, 2)
    for length in range(len(whole)):
        with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
            client.send(whole[:length])
    until(lambda: not broker.run(lambda real: real.server.connections), "those who stopped amid a word are gone")
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
        handshake(client, "PLAIN")
        assert say(client, b"\0ann\0secret").error_code == 0
        assert is_let_in(client)


# -- the oldest handshake, after which tokens are bare


@pytest.mark.parametrize(("mechanism", "answers"), [("PLAIN", [b""]), ("OAUTHBEARER", [b""])], ids=["PLAIN", "OAUTHBEARER"])
def test_after_the_oldest_handshake_a_bare_token_signs_in(
    client: RawClient, issuer: Issuer, mechanism: str, answers: list[bytes]
) -> None:
    assert handshake(client, mechanism, 0).error_code == 0
    token = b"\0ann\0secret" if mechanism == "PLAIN" else bearer(issuer.token(may="kafka"))

    assert [say_bare(client, token)] == answers
    assert is_let_in(client)


def test_after_the_oldest_handshake_scram_is_spoken_bare(client: RawClient) -> None:
    assert handshake(client, "SCRAM-SHA-256", 0).error_code == 0
    first = "n=ann,r=abcdefgh"
    challenge = say_bare(client, b"n,," + first.encode())

    assert say_bare(client, scram_final(first, challenge.decode(), "secret")).startswith(b"v=")
    assert is_let_in(client)


@pytest.mark.parametrize(
    "token", [b"\0ann\0wrong", b"", frame(ALL, 12)[4:], frame(SaslAuthenticateRequest(auth_bytes=b"\0ann\0secret"), 2)[4:]]
)
def test_after_the_oldest_handshake_whatever_is_no_token_ends_the_connection(client: RawClient, token: bytes) -> None:
    handshake(client, "PLAIN", 0)
    with pytest.raises(ConnectionError):
        say_bare(client, token)


# -- replays and guesses


def test_a_final_message_is_good_for_one_exchange(broker: Broker, client: RawClient) -> None:
    _, final = scram(client, "ann", "secret")
    for first in (b"n,,n=ann,r=abcdefgh", b"n,,n=ann,r=" + final.split(b",")[1][2:]):
        with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as other:
            handshake(other, "SCRAM-SHA-256")
            say(other, first)
            assert say(other, final).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert not is_let_in(other)


def test_a_success_of_ones_own_does_not_pay_for_guesses_at_others(broker: Broker) -> None:
    for _ in range(3):
        for password, code in (("secret", ErrorCode.NONE), ("guess", ErrorCode.SASL_AUTHENTICATION_FAILED)):
            with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
                assert scram(client, "ann", password)[0].error_code == code
    recent = broker.run(lambda real: real.sign_ins.failures.recent("127.0.0.1", real.loop.time()) if real.sign_ins else 0)

    assert recent >= 3


def test_a_name_that_there_is_not_and_a_wrong_password_are_told_alike(broker: Broker) -> None:
    replies = set()
    for name in ("ann", "nobody", "ann "):
        with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
            handshake(client, "PLAIN")
            reply = say(client, f"\0{name}\0wrong".encode())
            replies.add((reply.error_code, reply.error_message))

    assert len(replies) == 1


# -- forged tokens


def test_a_token_needs_the_scopes_that_are_set(broker: Broker, issuer: Issuer, client: RawClient) -> None:
    assert may_sign_in(broker, issuer.token(may="other kafka"))
    handshake(client, "OAUTHBEARER")
    told = say(client, bearer(issuer.token(may="other", scope="kafka")))

    assert json.loads(told.auth_bytes) == {"status": "insufficient_scope", "scope": "kafka"}
    assert say(client, b"\x01").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def forgeries(issuer: Issuer) -> dict[str, str]:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = issuer.key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    good = issuer.claims(may="kafka")
    hs256 = unsigned({"alg": "HS256", "kid": "one"}, good)
    confused = hs256 + urlsafe_b64encode(hmac.digest(public, hs256[:-1].encode(), "sha256")).rstrip(b"=").decode()
    elsewhere = {"kid": "two", "jku": "https://evil.example/keys", "x5u": "https://evil.example/x", "jwk": {"kty": "RSA"}}
    now = time.time()
    return {
        "no algorithm": unsigned({"alg": "none"}, good),
        "no algorithm in other letters": unsigned({"alg": "nOnE", "kid": "one"}, good, b"x"),
        "the public key as a secret": confused,
        "another key": jwt.encode(good, stranger, "RS256", headers={"kid": "one"}),
        "a key that it brings along": jwt.encode(good, stranger, "RS256", headers=elsewhere),
        "another audience": issuer.token(may="kafka", aud="others"),
        "another issuer": issuer.token(may="kafka", iss="https://issuer.example.evil"),
        "expired": issuer.token(may="kafka", exp=now - 60),
        "not yet": issuer.token(may="kafka", nbf=now + 600),
        "issued in the future": issuer.token(may="kafka", iat=now + 600),
        "no user": issuer.token(may="kafka", sub=None),
        "a line more in the user": issuer.token(may="kafka", sub="ann\nroot"),
        "a group that is no name": issuer.token(may="kafka", groups=["a\u202eb"]),
    }


def test_forged_tokens_let_nobody_in(broker: Broker, issuer: Issuer) -> None:
    until(lambda: may_sign_in(broker, issuer.token(may="kafka")), "the keys are fetched")

    assert [name for name, token in forgeries(issuer).items() if may_sign_in(broker, token)] == []


def code_for(broker: Broker, token: str) -> int | None:
    """What the owner of a token is told who asks for all rules; None where nobody is let in with it."""
    request = filled(ApiKey.DESCRIBE_ACLS, 3, {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1})
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
        handshake(client, "OAUTHBEARER")
        if say(client, bearer(token)).auth_bytes:
            return None
        return int(client.call(request, 3).error_code)


def test_a_group_out_of_a_token_has_the_rights_of_the_group(broker: Broker, issuer: Issuer) -> None:
    assert code_for(broker, issuer.token(may="kafka", sub="eve", groups=["admins"])) != NOT_FOR_THEM
    assert code_for(broker, issuer.token(may="kafka", sub="eve", groups=["Admins", "adm\u0456ns"])) == NOT_FOR_THEM


def test_keys_that_the_issuer_changed_count_and_its_old_ones_no_more(authority: Authority, tmp_path: Path) -> None:
    changing = Issuer(tmp_path)
    given = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{changing.file}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": "headrace",
    }
    with Broker(settings=given) as running:
        old = changing.token()
        until(lambda: may_sign_in(running, old), "the first key is fetched")
        changing.change_key("two")
        # Not by the clock: a key that is not known is asked for.
        until(lambda: may_sign_in(running, changing.token()), "the new key is fetched")

        assert not may_sign_in(running, old)


# -- names


LOOK_ALIKES = ["r\u043e\u043et", "root\u200b", "root\n", " root", "root ", "ROOT", "root\u0301", "\uff52oot"]


@pytest.mark.parametrize("name", ['a"b', "a:b", "User:root", "a,b=c+d", "root;User:root", *LOOK_ALIKES])
def test_a_name_that_looks_like_another_has_none_of_its_rights(broker: Broker, issuer: Issuer, name: str) -> None:
    """Either it is refused as a name, or it is somebody else, who may nothing."""
    assert code_for(broker, issuer.token(may="kafka", sub="root")) not in (NOT_FOR_THEM, None)
    assert code_for(broker, issuer.token(may="kafka", sub=name)) in (NOT_FOR_THEM, None)


# -- certificates


def tls_refuses(broker: Broker, context: ssl.SSLContext, host: str = "localhost") -> bool:
    with RawClient(broker.bootstraps["SSL"]) as client:
        try:
            client.socket = context.wrap_socket(client.socket, server_hostname=host)
            client.call(APIS_ASKED, 3)
        except (ssl.SSLError, ConnectionError):
            return True
    return False


def test_certificates_that_are_expired_self_signed_or_for_another_host_are_refused(
    broker: Broker, authority: Authority, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    expired = authority.of_client("root", "expired", not_after=now - timedelta(seconds=5))
    strangers = Authority(tmp_path, "strangers")
    forged = authority.context(strangers.of_client("root", "forged"))

    assert tls_refuses(broker, authority.context())
    assert tls_refuses(broker, authority.context(expired))
    assert tls_refuses(broker, forged)
    assert tls_refuses(broker, authority.context(authority.of_client("root")), host="elsewhere.example")
    assert tls_refuses(broker, strangers.context(authority.of_client("root")))
    assert not tls_refuses(broker, authority.context(authority.of_client("root")))


def resumed(broker: Broker, context: ssl.SSLContext, session: ssl.SSLSession | None) -> tuple[bool | None, ssl.SSLSession | None]:
    """Whether the broker took up a session again, and the session that a client has now."""
    with RawClient(broker.bootstraps["SSL"]) as client:
        wrapped = client.socket = context.wrap_socket(client.socket, server_hostname="localhost", session=session)
        client.call(APIS_ASKED, 3)
        return wrapped.session_reused, wrapped.session


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_of_an_authority_that_was_removed_cannot_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: ssl.TLSVersion
) -> None:
    monkeypatch.setattr(tls, "LOOK_SECONDS", 0.02)
    authority = Authority(tmp_path)
    given = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": authority.of_broker(),
        "ssl.truststore.location": authority.file,
        "ssl.client.auth": "required",
    }
    context = authority.context(authority.of_client("ann"))
    context.maximum_version = version
    with Broker(settings=given) as broker:
        _, session = resumed(broker, context, None)
        was_resumed, session = resumed(broker, context, session)
        Authority(tmp_path, "others").file.rename(authority.file)
        until(lambda: tls_refuses(broker, context), "the authority counts no more")

        assert was_resumed, "else this proves nothing"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            resumed(broker, context, session)


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_nobody_is_let_down_to_plain_text(broker: Broker, listener: str) -> None:
    with RawClient(broker.bootstraps[listener]) as client:
        client.send(frame(APIS_ASKED, 3))

        assert client.is_closed_by_broker()


# -- those who speak as a broker


def fetch_as_a_broker() -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        replica_id=1,
        replica_state=ReplicaState(replica_id=1, replica_epoch=1),
        max_wait_ms=0,
        min_bytes=0,
        topics=(FetchTopic(topic="t", partitions=(wanted,)),),
    )


@pytest.mark.parametrize("version", [4, 12, 14, 15, 18])
def test_somebody_who_fetches_as_a_broker_gets_nothing(broker: Broker, version: int) -> None:
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"], client_id="broker-1") as client:
        scram(client, "ann", "secret")
        reply = client.call(fetch_as_a_broker(), version)

    codes = {part.error_code for topic in reply.responses for part in topic.partitions} | {reply.error_code}
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in codes


WHO_MAY_EVERYTHING: tuple[dict[str, str], ...] = (
    {},
    {"authorizer": "acl", "super.users": "User:ANONYMOUS"},
    {"authorizer": "acl", "allow.everyone.if.no.acl.found": "true"},
)


@pytest.mark.parametrize("rules", WHO_MAY_EVERYTHING, ids=["no-rules", "super-user", "allow-everyone"])
def test_what_brokers_ask_of_each_other_is_answered_at_their_own_listener_only(rules: dict[str, str]) -> None:
    given = rules | {
        "listeners": "PLAINTEXT://127.0.0.1:0,OWN://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OWN:PLAINTEXT",
        "inter.broker.listener.name": "OWN",
    }
    with Broker(settings=given) as broker:
        refused = {}
        for listener, bootstrap in broker.bootstraps.items():
            with RawClient(bootstrap, client_id="broker-2") as client:
                for key in (ApiKey.ALTER_PARTITION, ApiKey.ADD_PARTITIONS_TO_TXN):
                    version = APIS[key].versions.stop - 1
                    refused[listener, key] = NOT_FOR_THEM in set(error_codes(client.call(filled(key, version, {}), version)))
                (topic,) = client.call(fetch_as_a_broker(), 12).responses
                code = topic.partitions[0].error_code
                refused[listener, ApiKey.FETCH] = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
                share_state = FindCoordinatorRequest(key_type=2, coordinator_keys=(f"g:{'A' * 22}:0",))
                found = client.call(share_state, 6)
                refused[listener, ApiKey.FIND_COORDINATOR] = NOT_FOR_THEM in set(error_codes(found))
                markers = client.call(filled(ApiKey.WRITE_TXN_MARKERS, 1, {}), 1)
                refused[listener, ApiKey.WRITE_TXN_MARKERS] = NOT_FOR_THEM in set(error_codes(markers))

    assert refused.pop(("PLAINTEXT", ApiKey.WRITE_TXN_MARKERS)) is False, "that is how transactions are ended by hand"
    assert {each for each, is_refused in refused.items() if is_refused} == {
        ("PLAINTEXT", ApiKey.ALTER_PARTITION),
        ("PLAINTEXT", ApiKey.ADD_PARTITIONS_TO_TXN),
        ("PLAINTEXT", ApiKey.FETCH),
        ("PLAINTEXT", ApiKey.FIND_COORDINATOR),
    }


@pytest.mark.parametrize(
    "key", [ApiKey.ALTER_PARTITION, ApiKey.WRITE_TXN_MARKERS, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.DESCRIBE_QUORUM]
)
def test_what_brokers_ask_of_each_other_is_refused_to_others(broker: Broker, key: ApiKey) -> None:
    version = APIS[key].versions.stop - 1
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"], client_id="broker-1") as client:
        scram(client, "ann", "secret")
        reply = client.call(filled(key, version, {}), version)

    assert NOT_FOR_THEM in set(error_codes(reply))


# -- tokens that there are not


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ],
    ids=lambda key: key.name,
)
def test_delegation_tokens_are_answered_as_disabled(broker: Broker, key: ApiKey) -> None:
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
        scram(client, "ann", "secret")
        for version in APIS[key].versions:
            assert client.call(filled(key, version, {}), version).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
