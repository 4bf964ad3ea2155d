"""Sign-ins, the broker's side alone: what the client sends is computed before."""

import base64
import hashlib
import hmac
from collections.abc import Callable

from scramp import ScramMechanism as OtherMechanism

from headrace.model.access.scram import ScramMechanism, credential_of, password_matches, salted_password
from headrace.security.authentication.exchange import Authenticated
from headrace.security.authentication.plain import PlainExchange
from headrace.security.authentication.scram import MadeUpCredentials, ScramExchange

SALT, ITERATIONS, NONCE = b"salt" * 8, 4096, "nonce"
FIRST = b"n,,n=ann,r=client"


def scram(mechanism: ScramMechanism) -> Callable[[], object]:
    kept = credential_of(mechanism, salted_password(mechanism, "secret", SALT, ITERATIONS), SALT, ITERATIONS)
    final, made_up = _final(mechanism), MadeUpCredentials(b"seed")

    def sign_in() -> None:
        exchange = ScramExchange(mechanism, lambda name: kept, made_up, lambda: NONCE)
        exchange.respond(FIRST)
        assert isinstance(exchange.respond(final), Authenticated)

    return sign_in


def scram_by_scramp(mechanism: ScramMechanism) -> Callable[[], object]:
    other = OtherMechanism(mechanism.title)
    kept = other.make_auth_info("secret", salt=SALT, iteration_count=ITERATIONS)
    first, final = FIRST.decode(), _final(mechanism).decode()

    def sign_in() -> None:
        server = other.make_server(lambda name: kept, s_nonce=NONCE)
        server.set_client_first(first)
        server.get_server_first()
        server.set_client_final(final)
        assert server.get_server_final()

    return sign_in


def plain() -> Callable[[], object]:
    mechanism = ScramMechanism.SHA_256
    kept = credential_of(mechanism, salted_password(mechanism, "secret", SALT, ITERATIONS), SALT, ITERATIONS)

    def sign_in() -> None:
        exchange = PlainExchange(lambda name, password: password_matches(mechanism, kept, password))
        assert isinstance(exchange.respond(b"\0ann\0secret"), Authenticated)

    return sign_in


def _final(mechanism: ScramMechanism) -> bytes:
    digest = mechanism.digest
    salted = hashlib.pbkdf2_hmac(digest, b"secret", SALT, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", digest)
    server_first = f"r=client{NONCE},s={base64.b64encode(SALT).decode()},i={ITERATIONS}"
    without_proof = f"c=biws,r=client{NONCE}"
    signed = f"{FIRST[3:].decode()},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    return f"{without_proof},p={proof}".encode()
