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
KEY_ID = "one"


class Issuer:
    """With one key."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        described = {**RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True), "kid": KEY_ID, "use": "sig"}
        self.file = folder / "keys.json"
        self.file.write_text(json.dumps({"keys": [described]}))

    def token(self, **claims: Any) -> str:
        now = int(time.time())
        said = {"sub": "ann", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, **claims}
        return jwt.encode(said, self._key, "RS256", headers={"kid": KEY_ID})
