"""Users' passwords, as far as the metadata know of them: the exchanges that ask for them."""

import secrets
from collections.abc import Callable, Sequence

from headrace.controller.image import CurrentImage
from headrace.model.access.scram import ScramMechanism, password_matches
from headrace.security.authentication.plain import PlainExchange
from headrace.security.authentication.scram import MadeUpCredentials, ScramExchange, Shape

NONCE_BYTES = 24


class Credentials:
    """What is kept of users' passwords."""

    def __init__(self, image: CurrentImage) -> None:
        self._image = image
        # How the credentials look that there are; None when that is to be found out again.
        self._shapes: tuple[Shape, ...] | None = None

    def on_change(self) -> None:
        self._shapes = None

    def scram(self, mechanism: ScramMechanism) -> Callable[[], ScramExchange]:
        """Makes an exchange for each who signs in."""
        return lambda: ScramExchange(
            mechanism,
            lambda name: self._image().scram_credentials.get((name, mechanism)),
            self._made_up(),
            lambda: secrets.token_urlsafe(NONCE_BYTES),
        )

    def plain(self) -> PlainExchange:
        return PlainExchange(self._is_valid)

    def _is_valid(self, name: str, password: str) -> bool:
        """Computes for milliseconds, for a user that there is not as well: not for the event loop."""
        known = self._image().scram_credentials
        for mechanism in reversed(ScramMechanism):
            if (credential := known.get((name, mechanism))) is not None:
                return password_matches(mechanism, credential, password)
        password_matches(ScramMechanism.SHA_512, self._made_up().of(ScramMechanism.SHA_512, name), password)
        return False

    def _made_up(self) -> MadeUpCredentials:
        return MadeUpCredentials(self._image().scram_seed, self._all_shapes)

    def _all_shapes(self) -> Sequence[Shape]:
        if self._shapes is None:
            kept = list(self._image().scram_credentials.values())
            self._shapes = tuple({(len(credential.salt), credential.iterations) for credential in kept})
        return self._shapes
