"""SCRAM, the side of whoever signs in: the other side has to know the password's keys as well, or is not believed."""

import base64

import pytest

from headrace.model.access.scram import ITERATIONS_MIN, ScramMechanism, credential_of, salted_password
from headrace.model.access.scram_client import ACCEPTED_ITERATIONS_MAX, NotTheirAnswer, ScramClient
from headrace.security.authentication.exchange import Authenticated, Challenge
from headrace.security.authentication.scram import MadeUpCredentials, ScramExchange

SALT = b"sixteen bytes..."


def broker(mechanism: ScramMechanism, password: str = "secret") -> ScramExchange:
    salted = salted_password(mechanism, password, SALT, ITERATIONS_MIN)
    credential = credential_of(mechanism, salted, SALT, ITERATIONS_MIN)
    return ScramExchange(mechanism, lambda name: credential, MadeUpCredentials(b"seed"), lambda: "theirs")


def challenge_to(client: ScramClient, nonce: str = "", salt: str = "", iterations: int = ITERATIONS_MIN) -> bytes:
    ours = client.first.decode().rpartition("r=")[2]
    return f"r={nonce or ours + 'theirs'},s={salt or base64.b64encode(SALT).decode()},i={iterations}".encode()


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("name", ["ann", "a,b=c"])
def test_a_broker_that_knows_the_keys_is_believed(mechanism: ScramMechanism, name: str) -> None:
    client, server = ScramClient(mechanism, name), broker(mechanism)
    challenge = server.respond(client.first)
    assert isinstance(challenge, Challenge)
    salted = salted_password(mechanism, "secret", *client.take_challenge(challenge.reply))
    outcome = server.respond(client.final(salted))
    assert isinstance(outcome, Authenticated)

    client.verify(outcome.reply)

    assert outcome.principal.name == name


@pytest.mark.parametrize("answer", [b"", b"v=", b"v=" + base64.b64encode(bytes(32)), b"e=other-error"])
def test_one_that_does_not_know_the_keys_is_not(answer: bytes) -> None:
    client = ScramClient(ScramMechanism.SHA_256, "ann")
    client.final(salted_password(ScramMechanism.SHA_256, "secret", *client.take_challenge(challenge_to(client))))

    with pytest.raises(NotTheirAnswer, match="does not know the password"):
        client.verify(answer)


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "another"},
        {"salt": "a"},
        {"salt": "a=b="},
        {"iterations": 1},
        {"iterations": ITERATIONS_MIN - 1},
        {"iterations": ACCEPTED_ITERATIONS_MAX + 1},
    ],
)
def test_a_challenge_that_is_no_answer_to_ours_or_weakens_the_password_is_refused(changes: dict[str, object]) -> None:
    client = ScramClient(ScramMechanism.SHA_256, "ann")

    with pytest.raises(NotTheirAnswer):
        client.take_challenge(challenge_to(client, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("message", [b"", b"\xff", b"e=unknown-user", b"r=x,s=,i=4096", b"r=x"])
def test_whatever_else_comes_is_refused(message: bytes) -> None:
    with pytest.raises(NotTheirAnswer):
        ScramClient(ScramMechanism.SHA_256, "ann").take_challenge(message)
