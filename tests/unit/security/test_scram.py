"""SCRAM: the standards' examples, other people's client, and everything that an attacker would try."""

import base64
import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient as OtherClient

from headrace.model.access.principals import user
from headrace.model.access.scram import ScramCredential, ScramMechanism, credential_of, password_matches, salted_password
from headrace.model.access.scram_client import escaped
from headrace.security.authentication.exchange import (
    MESSAGE_BYTES_MAX,
    SHORT_MESSAGE_BYTES_MAX,
    Authenticated,
    Challenge,
    Refused,
)
from headrace.security.authentication.scram import MadeUpCredentials, ScramExchange
from headrace.security.authentication.scram_messages import SCRAM_BYTES_MAX
from tests.unit.security.sasl_clients import ScramClient

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
BOTH = pytest.mark.parametrize("mechanism", ScramMechanism, ids=lambda mechanism: mechanism.title)
NAMES = ["ann", "a,b=c", "Ünï", "CN=ann,O=Acme"]


def credential(mechanism: ScramMechanism, password: str, salt: bytes = b"salt" * 8, iterations: int = 4096) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


CREDENTIALS = {mechanism: {name: credential(mechanism, f"{name}'s") for name in NAMES} for mechanism in ScramMechanism}


def exchange(mechanism: ScramMechanism = SHA_256, nonce: str | None = None, seed: bytes = b"seed") -> ScramExchange:
    numbers = itertools.count()
    return ScramExchange(
        mechanism, CREDENTIALS[mechanism].get, MadeUpCredentials(seed), lambda: nonce or f"server{next(numbers)}"
    )


def challenged(server: ScramExchange, client: ScramClient) -> bytes:
    challenge = server.respond(client.first())
    assert isinstance(challenge, Challenge)
    return challenge.reply


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    kept = credential(SHA_256, "pencil", salt)
    server = ScramExchange(SHA_256, {"user": kept}.get, MadeUpCredentials(b""), lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")

    assert server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert server.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ) == Authenticated(principal=user("user"), reply=b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@BOTH
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("header", ["n,,", "y,,", "n,a={},", "y,a={},"])
def test_who_knows_the_password_is_let_in_and_knows_the_broker(mechanism: ScramMechanism, name: str, header: str) -> None:
    server, client = (
        exchange(mechanism),
        ScramClient(mechanism.digest, name, f"{name}'s", header=header.format(escaped(name))),
    )

    outcome = server.respond(client.final(challenged(server, client)))

    assert isinstance(outcome, Authenticated)
    assert outcome.principal == user(name)
    assert outcome.groups == ()
    assert outcome.expires_at_ms is None
    assert client.accepts(outcome.reply)


@BOTH
def test_other_peoples_client_is_let_in(mechanism: ScramMechanism) -> None:
    server, client = exchange(mechanism), OtherClient([mechanism.title], "ann", "ann's")

    challenge = server.respond(client.get_client_first().encode())
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.reply.decode())
    outcome = server.respond(client.get_client_final().encode())
    assert isinstance(outcome, Authenticated)

    client.set_server_final(outcome.reply.decode())


@BOTH
def test_a_wrong_password_and_an_unknown_user_are_told_the_same(mechanism: ScramMechanism) -> None:
    refusals = []
    for name in ("ann", "nobody"):
        server, client = exchange(mechanism), ScramClient(mechanism.digest, name, "wrong")
        refusals.append(server.respond(client.final(challenged(server, client))))

    wrong, unknown = refusals
    assert isinstance(wrong, Refused)
    assert isinstance(unknown, Refused)
    assert wrong.message == unknown.message
    assert mechanism.title in wrong.message
    assert "ann" not in wrong.message
    assert wrong.reason != unknown.reason


def test_an_unknown_user_gets_the_same_salt_every_time_and_on_every_broker() -> None:
    def told(name: str, seed: bytes = b"seed") -> bytes:
        return challenged(exchange(nonce="n", seed=seed), ScramClient("sha256", name, "x"))

    assert told("nobody") == told("nobody")
    assert told("nobody") != told("no one")
    assert told("nobody") != told("nobody", b"another cluster's")


def test_what_is_made_up_looks_like_what_there_is() -> None:
    shapes = [(26, 8192), (64, 4096)]
    made_up = MadeUpCredentials(b"seed", lambda mechanism: shapes if mechanism is SHA_512 else [(10, 5000)])

    found = {(len(each.salt), each.iterations) for each in (made_up.of(SHA_512, f"u{n}") for n in range(50))}

    assert found == set(shapes)
    assert {made_up.of(SHA_256, f"u{n}").iterations for n in range(50)} == {5000}
    assert len(made_up.of(SHA_512, "x").stored_key) == 64
    assert MadeUpCredentials(b"seed", lambda mechanism: ()).of(SHA_256, "x").iterations == 4096


def test_what_is_made_up_lets_nobody_in() -> None:
    """Even whoever knew the seed, and so the keys, is nobody."""
    server, client = exchange(), ScramClient("sha256", "nobody", "x")
    first = challenged(server, client)
    assert server._begun is not None
    server._begun = replace(server._begun, credential=credential(SHA_256, "x", server._begun.credential.salt))

    assert isinstance(server.respond(client.final(first)), Refused)


def test_a_replayed_exchange_is_refused() -> None:
    """CVE-2024-56128: the nonce has to be this exchange's."""
    first_server, client = exchange(nonce="one"), ScramClient("sha256", "ann", "ann's")
    recorded = client.final(challenged(first_server, client))
    assert isinstance(first_server.respond(recorded), Authenticated)
    second = exchange(nonce="two")
    challenged(second, client)

    outcome = second.respond(recorded)

    assert isinstance(outcome, Refused)
    assert outcome.reason == "another exchange's nonce"


@pytest.mark.parametrize(
    "change", [lambda nonce: nonce[:-1], lambda nonce: nonce + "x", lambda nonce: "x" + nonce, lambda nonce: "x"]
)
def test_a_nonce_is_compared_whole(change: object) -> None:
    server, client = exchange(), ScramClient("sha256", "ann", "ann's")
    first = challenged(server, client)
    nonce = first.decode().partition(",")[0][2:]

    outcome = server.respond(client.final(first, nonce=change(nonce)))  # type: ignore[operator]

    assert isinstance(outcome, Refused)


@pytest.mark.parametrize(("sent", "bound"), [("n,,", "y,,"), ("y,,", "n,,"), ("n,a=ann,", "n,,"), ("n,,", "p=tls-unique,,")])
def test_the_channel_that_is_bound_has_to_be_the_one_of_the_first_message(sent: str, bound: str) -> None:
    server, client = exchange(), ScramClient("sha256", "ann", "ann's", header=sent)

    outcome = server.respond(client.final(challenged(server, client), header=bound))

    assert isinstance(outcome, Refused)
    assert "channel" in outcome.reason


@pytest.mark.parametrize("header", ["p=tls-unique,,", "p=tls-exporter,,"])
def test_channel_binding_is_refused_where_it_is_asked_for(header: str) -> None:
    outcome = exchange().respond(f"{header}n=ann,r=abc".encode())

    assert isinstance(outcome, Refused)
    assert "channel binding" in outcome.reason


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=ann",
        b"n,,r=abc,n=ann",
        b"n,,n=,r=abc",
        b"n,,n=ann,r=",
        b"n,,n=ann,r=a c",
        b"n,,n=a=nn,r=abc",
        b"n,,n=a=2cnn,r=abc",
        b"n,,m=x,n=ann,r=abc",
        b"n,a=bob,n=ann,r=abc",
        b"x,,n=ann,r=abc",
        b"n,,n=ann,r=abc,",
        b"n,,n=ann,r=abc,x",
        b"n,,n=ann\0,r=abc",
        b"n,,n=ann,r=abc,tokenauth=true",
        b"n,,n=\xff,r=abc",
        b"\xff\xfe",
        b"n,,n=ann,r=abc\n",
    ],
)
def test_a_first_message_that_is_wrong_is_refused(message: bytes) -> None:
    assert isinstance(exchange().respond(message), Refused)


def test_unknown_extensions_are_signed_and_otherwise_ignored() -> None:
    server, client = exchange(), ScramClient("sha256", "ann", "ann's")
    client.bare += ",x=anything"

    outcome = server.respond(client.final(challenged(server, client), extension=",y=more"))

    assert isinstance(outcome, Authenticated)


@BOTH
def test_both_messages_cut_off_or_altered_at_every_byte_are_refused_or_another_name(mechanism: ScramMechanism) -> None:
    client = ScramClient(mechanism.digest, "ann", "ann's")
    for length in range(len(client.first())):
        assert isinstance(exchange(mechanism).respond(client.first()[:length]), Refused | Challenge)
    whole = client.final(challenged(exchange(mechanism, nonce="n"), client))
    for position in range(len(whole)):
        for altered in (whole[:position], whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]):
            server = exchange(mechanism, nonce="n")
            challenged(server, client)
            assert isinstance(server.respond(altered), Refused), altered
            assert isinstance(server.respond(whole), Refused)


def test_a_proof_of_another_length_is_refused() -> None:
    for proof in (b"", b"x", b"x" * 31, b"x" * 33, b"x" * 64):
        server, client = exchange(), ScramClient("sha256", "ann", "ann's")
        without = client.final(challenged(server, client)).rpartition(b",p=")[0]
        assert isinstance(server.respond(without + b",p=" + base64.b64encode(proof)), Refused)


@given(st.lists(st.binary(max_size=80) | st.sampled_from([b"n,,n=ann,r=abc", b"c=biws,r=abcserver0,p=AAAA"]), max_size=5))
def test_whatever_arrives_is_answered_and_lets_nobody_in(messages: list[bytes]) -> None:
    server = exchange()

    for message in messages:
        assert isinstance(server.respond(message), Challenge | Refused)


def test_after_the_end_everything_is_refused() -> None:
    server, client = exchange(), ScramClient("sha256", "ann", "ann's")
    final = client.final(challenged(server, client))
    assert isinstance(server.respond(final), Authenticated)

    assert isinstance(server.respond(final), Refused)
    assert isinstance(server.respond(client.first()), Refused)


def test_a_message_is_no_longer_than_names_and_nonces_need() -> None:
    """What is longer is not looked into: that would cost everybody else the time."""
    outcome = exchange().respond(b"n,,n=" + b"a" * SCRAM_BYTES_MAX + b",r=abc")

    assert isinstance(outcome, Refused)
    assert "bytes" in outcome.reason


def test_a_message_has_a_limit() -> None:
    outcome = exchange().respond(b"n,,n=" + b"a" * MESSAGE_BYTES_MAX + b",r=abc")

    assert isinstance(outcome, Refused)
    assert "bytes" in outcome.reason


def test_a_name_that_is_no_principal_is_refused_at_the_end() -> None:
    name = "ann\u202e"
    server = ScramExchange(SHA_256, lambda _: CREDENTIALS[SHA_256]["ann"], MadeUpCredentials(b""), lambda: "n")
    client = ScramClient("sha256", name, "ann's")

    assert isinstance(server.respond(client.final(challenged(server, client))), Refused)


def test_a_credential_does_not_print_its_keys() -> None:
    kept = CREDENTIALS[SHA_256]["ann"]

    assert repr(kept.stored_key)[2:-1] not in repr(kept)
    assert "key" not in repr(kept)


@BOTH
def test_a_password_itself_can_be_checked_too(mechanism: ScramMechanism) -> None:
    kept = CREDENTIALS[mechanism]["ann"]

    assert password_matches(mechanism, kept, "ann's")
    assert not password_matches(mechanism, kept, "Ann's")
    assert not password_matches(mechanism, kept, "")


def test_nobody_has_much_held_for_a_name_before_they_are_known() -> None:
    outcome = exchange().respond(b"n,,n=" + b"a" * SHORT_MESSAGE_BYTES_MAX + b",r=abc")

    assert isinstance(outcome, Refused)
    assert outcome.claimed == ""
