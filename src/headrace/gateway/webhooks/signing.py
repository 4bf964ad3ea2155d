"""Signatures by the Standard Webhooks specification: HMAC-SHA-256 over id, time and body, one for each secret that is good."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Final

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(good: Iterable[str], message_id: str, timestamp_s: int, body: bytes) -> dict[str, str]:
    """The headers of one message."""
    content = b"%s.%d.%s" % (message_id.encode(), timestamp_s, body)
    signatures = [f"v1,{base64.b64encode(_digest(secret, content)).decode()}" for secret in good]
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp_s), "webhook-signature": " ".join(signatures)}


def _digest(secret: str, content: bytes) -> bytes:
    return hmac.new(base64.b64decode(secret.removeprefix(PREFIX)), content, hashlib.sha256).digest()
