"""SCRAM credentials (RFC 5802, RFC 7677): what is kept of a password, and how it is made.

Kept are a salt, a number of iterations and two keys.  From these a client can be checked and can check the broker, but neither
the password nor what a client needs to sign in can be had from them.
"""

import hashlib
import hmac
from dataclasses import field
from enum import IntEnum
from typing import Final

from headrace.declaring import dataclass

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
SALT_BYTES: Final = 32


class ScramMechanism(IntEnum):
    """The numbers are the protocol's."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def title(self) -> str:
        """The mechanism's name in SASL."""
        return f"SCRAM-SHA-{self.digest[3:]}"

    @property
    def digest(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def key_bytes(self) -> int:
        return 32 if self is ScramMechanism.SHA_256 else 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What is kept for one user and one mechanism.  The keys are not printed: with them one can pass for the broker."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Milliseconds of computing, on purpose."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """From a salted password, as AlterUserScramCredentials carries it."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    return ScramCredential(
        salt=salt,
        iterations=iterations,
        stored_key=hashlib.new(mechanism.digest, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.digest),
    )


def password_matches(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """For PLAIN, where the password itself arrives.  It takes as long for a wrong password as for the right one."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    offered = credential_of(mechanism, salted, credential.salt, credential.iterations)
    return hmac.compare_digest(offered.stored_key, credential.stored_key)
