"""Clients of SASL for the tests: written from the standards, sharing nothing with the broker's side."""

import base64
import hashlib
import hmac


class ScramClient:
    """A client as in RFC 5802, with the parts that an attacker would change as arguments."""

    def __init__(
        self, digest: str, name: str, password: str, nonce: str = "fyko+d2lbbFgONRv9qkxdawL", header: str = "n,,"
    ) -> None:
        self.digest, self.password, self.header = digest, password.encode(), header
        self.nonce = nonce
        self.bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self.server_signature = b""

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, server_first: bytes, *, nonce: str | None = None, header: str | None = None, extension: str = "") -> bytes:
        parts = dict(part.split("=", 1) for part in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(self.digest, self.password, base64.b64decode(parts["s"]), int(parts["i"]))
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self.digest, client_key).digest()
        binding = base64.b64encode((self.header if header is None else header).encode()).decode()
        without_proof = f"c={binding},r={parts['r'] if nonce is None else nonce}{extension}"
        signed = f"{self.bare},{server_first.decode()},{without_proof}".encode()
        proof = bytes(a ^ b for a, b in zip(client_key, self._hmac(stored_key, signed), strict=True))
        self.server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def accepts(self, server_final: bytes) -> bool:
        return server_final == b"v=" + base64.b64encode(self.server_signature)

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self.digest).digest()
