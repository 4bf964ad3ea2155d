"""Signing in by hand, message by message: what clients do, and what they should not."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Any

from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw import RawClient


def handshake(client: RawClient, mechanism: str, version: int = 1) -> Any:
    return client.call(SaslHandshakeRequest(mechanism=mechanism), version)


def say(client: RawClient, message: bytes, version: int = 2) -> Any:
    return client.call(SaslAuthenticateRequest(auth_bytes=message), version)


def say_bare(client: RawClient, message: bytes) -> bytes:
    """As after the oldest handshake; raises ConnectionError when the broker ends it."""
    client.send(len(message).to_bytes(4, "big") + message)
    return client.receive()


def bearer(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def scram_final(first: str, server_first: str, password: str) -> bytes:
    nonce, salt, iterations = (part[2:] for part in server_first.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b64decode(salt), int(iterations))
    key = hmac.digest(salted, b"Client Key", "sha256")
    bare = f"c=biws,r={nonce}"
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{first},{server_first},{bare}".encode(), "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{bare},p={b64encode(proof).decode()}".encode()


def scram(client: RawClient, name: str, password: str) -> tuple[Any, bytes]:
    """The last reply, and the last message."""
    assert handshake(client, "SCRAM-SHA-256").error_code == 0
    first = f"n={name},r=abcdefgh"
    challenge = say(client, b"n,," + first.encode())
    final = scram_final(first, challenge.auth_bytes.decode(), password)
    return say(client, final), final
