"""The keys that tokens are signed with: a JWKS document (RFC 7517), handed in, and replaced when the issuer changes its keys.

The document comes from where the broker is told to fetch it; a token's own `jku`, `jwk` or `x5u` is never looked at.  A key that
is not there may be new: whoever fetches the document is asked to, but no more often than so, however many such tokens arrive.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

RSA_BITS_MIN: Final = 2048
KEYS_MAX: Final = 100
REFRESH_INTERVAL_S: Final = 10.0

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_READERS: Final[dict[str, Any]] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
# Signatures by public keys only: a list for good, and nothing that a token says adds to it.
ALGORITHMS: Final = (*_RSA, *_CURVES.values(), "EdDSA")


class SigningKey(NamedTuple):
    """A key, and the algorithms that it may be used with."""

    key_id: str | None
    key: PublicKey
    algorithms: tuple[str, ...]


class SigningKeys:
    """The keys of an issuer."""

    def __init__(
        self,
        document: Mapping[str, Any] | None,
        ask_for_refresh: Callable[[], None],
        now: Callable[[], float],
        refresh_interval_s: float = REFRESH_INTERVAL_S,
    ) -> None:
        self._ask_for_refresh = ask_for_refresh
        self._now = now
        self._refresh_interval_s = refresh_interval_s
        self._asked_at: float | None = None
        self._keys: tuple[SigningKey, ...] = ()
        if document is not None:
            self.replace(document)

    def replace(self, document: Mapping[str, Any]) -> None:
        """Another document: keys that it lacks count no more.  Raises ValueError when it has none that can be used."""
        listed = document.get("keys") if isinstance(document, Mapping) else None
        if not isinstance(listed, list):
            raise ValueError("the document is no JWKS: it has no list of keys")
        keys = tuple(key for key in map(_read, listed[:KEYS_MAX]) if key is not None)
        if not keys:
            raise ValueError("the JWKS has no key to check signatures with")
        self._keys = keys

    def find(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        """The key that a token names; a token that names none needs none named where there is one key only."""
        fitting = [key for key in self._keys if algorithm in key.algorithms and key_id in (None, key.key_id)]
        if len(fitting) == 1:
            return fitting[0].key
        if key_id is not None and not fitting:
            self._on_unknown()
        return None

    def _on_unknown(self) -> None:
        now = self._now()
        if self._asked_at is None or now - self._asked_at >= self._refresh_interval_s:
            self._asked_at = now
            self._ask_for_refresh()


def _read(described: object) -> SigningKey | None:
    """A key of the document; None for one that is not for signatures, too weak, or of a kind that is not used."""
    if not isinstance(described, dict) or described.get("use", "sig") != "sig":
        return None
    operations = described.get("key_ops")
    if operations is not None and (not isinstance(operations, list) or "verify" not in operations):
        return None
    key = _public_key(described)
    if key is None:
        return None
    fitting, stated = _algorithms(key), described.get("alg")
    algorithms = fitting if stated is None else tuple(each for each in fitting if each == stated)
    key_id = described.get("kid")
    return SigningKey(key_id if isinstance(key_id, str) else None, key, algorithms) if algorithms else None


def _public_key(described: dict[str, Any]) -> PublicKey | None:
    reader = _READERS.get(str(described.get("kty")))
    if reader is None:
        return None
    try:
        key = reader.from_jwk(described)
    except Exception:
        # One key that another library cannot read is left out, however it fails.
        return None
    if isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey):
        key = key.public_key()
    return key if isinstance(key, RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey) else None


def _algorithms(key: PublicKey) -> tuple[str, ...]:
    match key:
        case RSAPublicKey():
            return _RSA if key.key_size >= RSA_BITS_MIN else ()
        case EllipticCurvePublicKey():
            return (_CURVES[key.curve.name],) if key.curve.name in _CURVES else ()
        case _:
            return ("EdDSA",)
