"""Secrets at rest: sealed with a key that only gateways have, so that who can read their topic cannot read these."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Any, Final

import orjson

from headrace.client.errors import InvalidArgument
from headrace.client.security.secret_files import require_private
from headrace.gateway.serving.problems import Problem

KEY_BYTES_MIN: Final = 32
NONCE_BYTES: Final = 12


class Seal:
    """Without a key nothing is sealed, and no password is kept."""

    def __init__(self, key_file: Path | None) -> None:
        """Raises InvalidArgument when the file cannot be used."""
        self._cipher: Any = None
        self.key_id: str | None = None  # tells keys apart, and is nothing that can be opened with
        self._marking: bytes | None = None
        if key_file is not None:
            key = _key(key_file)
            self._cipher = _cipher(key)
            self.key_id = hashlib.blake2b(key, digest_size=8, person=b"headrace key id").hexdigest()
            self._marking = hashlib.blake2b(key, person=b"headrace marks").digest()

    @property
    def has_key(self) -> bool:
        return self._cipher is not None

    def mark(self, name: bytes, value: bytes | None) -> bytes | None:
        """What shows that somebody with the key has written this under this name; None without a key."""
        if self._marking is None:
            return None
        told = b"%d %b%b" % (len(name), name, b"" if value is None else b"=" + value)
        return hmac.digest(self._marking, told, "sha256")

    def seal(self, value: Any) -> dict[str, Any]:
        plain = orjson.dumps(value)
        if self._cipher is None:
            return {"plain": value}
        nonce = secrets.token_bytes(NONCE_BYTES)
        return {"sealed": base64.b64encode(nonce + self._cipher.encrypt(nonce, plain, None)).decode()}

    def open(self, kept: dict[str, Any]) -> Any:
        """What was sealed.  Raises a Problem where this gateway has not the key."""
        if "plain" in kept:
            return kept["plain"]
        raw = base64.b64decode(kept["sealed"])
        if self._cipher is not None:
            try:
                return orjson.loads(self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], None))
            except Exception:  # cryptography's own, which need not be installed
                pass
        raise Problem(503, "secrets_sealed", "This gateway has not the key of the subscriptions.", "Give all the same key file.")


def _key(file: Path) -> bytes:
    require_private(file, "secret_key_file")
    raw = file.read_bytes().strip()
    if len(raw) < KEY_BYTES_MIN:
        raise InvalidArgument(f"{file} is too short for a key; put {KEY_BYTES_MIN} or more random bytes into it")
    return hashlib.sha256(raw).digest()


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise InvalidArgument("sealing secrets needs the package cryptography: pip install 'headrace[security]'") from None
    return AESGCM(key)
