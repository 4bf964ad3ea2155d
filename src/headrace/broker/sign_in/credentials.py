"""Users' passwords, as far as the metadata know of them: the exchanges that ask for them."""

import secrets
from collections.abc import Callable, Mapping
from typing import Final

from headrace.controller.image import CurrentImage
from headrace.declaring import dataclass
from headrace.model.access.scram import ScramMechanism, password_matches
from headrace.security.authentication.plain import PlainExchange
from headrace.security.authentication.scram import MadeUpCredentials, ScramExchange, Shape

NONCE_BYTES = 24


# A user who has several is checked by the strongest.
STRONGEST_FIRST: Final = tuple(reversed(ScramMechanism))


@dataclass(frozen=True, slots=True)
class _Kept:
    """How the credentials look that there are."""

    shapes: Mapping[ScramMechanism, frozenset[Shape]]
    strongest: tuple[ScramMechanism, ...]  # those that are the strongest of some user


class Credentials:
    """What is kept of users' passwords."""

    def __init__(self, image: CurrentImage) -> None:
        self._image = image
        self._kept: _Kept | None = None  # None when it is to be found out again

    def on_change(self) -> None:
        self._kept = None

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
        """Computes for milliseconds, for a user that there is not as well: not for the event loop.

        As long, too: by a mechanism and with iterations that users have."""
        known = self._image().scram_credentials
        for mechanism in STRONGEST_FIRST:
            if (credential := known.get((name, mechanism))) is not None:
                return password_matches(mechanism, credential, password)
        made_up = self._made_up()
        mechanism = made_up.mechanism_of(name, self._seen().strongest or STRONGEST_FIRST[:1])
        password_matches(mechanism, made_up.of(mechanism, name), password)
        return False

    def _made_up(self) -> MadeUpCredentials:
        return MadeUpCredentials(self._image().scram_seed, lambda mechanism: tuple(self._seen().shapes.get(mechanism, ())))

    def _seen(self) -> _Kept:
        if (kept := self._kept) is None:
            shapes: dict[ScramMechanism, set[Shape]] = {}
            strongest: dict[str, ScramMechanism] = {}
            for (name, mechanism), credential in list(self._image().scram_credentials.items()):
                shapes.setdefault(mechanism, set()).add((len(credential.salt), credential.iterations))
                strongest[name] = min(mechanism, strongest.get(name, mechanism), key=STRONGEST_FIRST.index)
            used = tuple(mechanism for mechanism in STRONGEST_FIRST if mechanism in strongest.values())
            kept = self._kept = _Kept({mechanism: frozenset(found) for mechanism, found in shapes.items()}, used)
        return kept
