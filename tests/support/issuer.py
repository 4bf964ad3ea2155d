"""Somebody who issues tokens, for tests: signs them, and has its keys in a file."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

ISSUER = "https://issuer.example"
AUDIENCE = "headrace"


class Issuer:
    """With one key at a time."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "keys.json"
        self.change_key("one")

    def change_key(self, key_id: str) -> None:
        """From now on it signs with another, and its file has only that."""
        self.key_id = key_id
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        described = {**RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True), "kid": key_id, "use": "sig"}
        self.file.write_text(json.dumps({"keys": [described]}))

    def claims(self, **others: Any) -> dict[str, Any]:
        now = int(time.time())
        return {"sub": "ann", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, **others}

    def token(self, **claims: Any) -> str:
        return jwt.encode(self.claims(**claims), self.key, "RS256", headers={"kid": self.key_id})

    def token_without_key_id(self, **claims: Any) -> str:
        """As some issuers with one key make them."""
        return jwt.encode(self.claims(**claims), self.key, "RS256")
