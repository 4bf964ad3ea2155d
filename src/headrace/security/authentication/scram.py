"""SCRAM, the broker's side (RFC 5802): the client proves that it knows the password, and the broker that it knows its keys.

A user that there is not gets a salt and iterations all the same, always the same ones, and fails at the proof like anybody with a
wrong password.  The nonce of the last message has to be the one that this exchange made (CVE-2024-56128), so that nothing can be
replayed.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import Final

from headrace.declaring import dataclass
from headrace.model.access.principals import PrincipalError, user
from headrace.model.access.scram import ITERATIONS_MIN, SALT_BYTES, ScramCredential, ScramMechanism
from headrace.security.authentication.exchange import SHORT_MESSAGE_BYTES_MAX, Authenticated, Challenge, Exchange, RefusalError
from headrace.security.authentication.scram_messages import ClientFirst, read_client_final, read_client_first

# How a salt looks, and how often it is iterated: what a made-up credential has to look like.
Shape = tuple[int, int]
SHAPE: Final[Shape] = (SALT_BYTES, ITERATIONS_MIN)


class MadeUpCredentials:
    """Credentials for users that there are not.  All brokers have the same seed, so that no broker gives them away."""

    def __init__(self, seed: bytes, shapes: Callable[[ScramMechanism], Sequence[Shape]] = lambda _: (SHAPE,)) -> None:
        """`shapes` are those of the credentials that there are for a mechanism."""
        self._seed = seed
        self._shapes = shapes

    def of(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        """Always the same for one name, and in one of the shapes that real ones have."""
        shapes = sorted(set(self._shapes(mechanism))) or [SHAPE]
        drawn = self._drawn(f"{mechanism.title}:{name}")
        salt_bytes, iterations = shapes[int.from_bytes(drawn[:8], "big") % len(shapes)]
        size = mechanism.key_bytes
        return ScramCredential(
            salt=drawn[8 : 8 + salt_bytes],
            iterations=iterations,
            stored_key=drawn[-size:],
            server_key=drawn[-2 * size : -size],
        )

    def mechanism_of(self, name: str, used: Sequence[ScramMechanism]) -> ScramMechanism:
        """One of those that real users have, always the same for one name."""
        return used[int.from_bytes(self._drawn(name)[:8], "big") % len(used)]

    def _drawn(self, text: str) -> bytes:
        return hashlib.shake_256(hmac.digest(self._seed, text.encode(), "sha512")).digest(1024)


@dataclass(frozen=True, slots=True)
class _Begun:
    """What the first message leaves behind for the final one."""

    first: ClientFirst
    nonce: str
    server_first: str
    credential: ScramCredential
    is_known: bool


class ScramExchange(Exchange):
    """First message, challenge, final message, signature."""

    message_bytes_max = SHORT_MESSAGE_BYTES_MAX

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: Callable[[str], ScramCredential | None],
        made_up: MadeUpCredentials,
        new_nonce: Callable[[], str],
    ) -> None:
        super().__init__(mechanism.title)
        self._kind = mechanism
        self._credential_of = credential_of
        self._made_up = made_up
        self._new_nonce = new_nonce
        self._begun: _Begun | None = None

    def _step(self, message: bytes) -> Challenge | Authenticated:
        return self._on_first(message) if self._begun is None else self._on_final(message, self._begun)

    def _on_first(self, message: bytes) -> Challenge:
        first = read_client_first(message)
        self.claimed = first.name
        if first.authorization_id not in ("", first.name):
            raise RefusalError("an authorization id that is not the user name")
        # Made up for everybody: a reply that came sooner for users that there are would give them away.
        made_up, kept = self._made_up.of(self._kind, first.name), self._credential_of(first.name)
        credential = made_up if kept is None else kept
        nonce = first.nonce + self._new_nonce()
        server_first = f"r={nonce},s={base64.b64encode(credential.salt).decode()},i={credential.iterations}"
        self._begun = _Begun(first, nonce, server_first, credential, kept is not None)
        return Challenge(server_first.encode())

    def _on_final(self, message: bytes, begun: _Begun) -> Authenticated:
        final = read_client_final(message)
        if not hmac.compare_digest(final.nonce.encode(), begun.nonce.encode()):
            raise RefusalError("another exchange's nonce")
        if final.channel_binding != begun.first.header.encode():
            raise RefusalError("the final message binds another channel than the first")
        signed = f"{begun.first.bare},{begun.server_first},{final.without_proof}".encode()
        if not self._is_proven(final.proof, begun.credential.stored_key, signed) or not begun.is_known:
            raise RefusalError("the password is wrong" if begun.is_known else "there is no such user")
        signature = hmac.digest(begun.credential.server_key, signed, self._kind.digest)
        try:
            return Authenticated(principal=user(begun.first.name), reply=b"v=" + base64.b64encode(signature))
        except PrincipalError as error:
            raise RefusalError(str(error)) from None

    def _is_proven(self, proof: bytes, stored_key: bytes, signed: bytes) -> bool:
        signature = hmac.digest(stored_key, signed, self._kind.digest)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.new(self._kind.digest, client_key).digest(), stored_key)
