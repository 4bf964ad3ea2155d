"""How this broker signs in at others: SCRAM, the client's side.  It checks that the other one knows its credentials, too."""

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.model.access.scram import ITERATIONS_MIN, ScramMechanism, salted_password
from headrace.model.broker_settings import BrokerConfig
from headrace.model.settings import SettingError
from headrace.security.authentication.scram_messages import escaped
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from headrace.broker.cluster.peers import PeerConnection

USER: Final = "headrace.sasl.inter.broker.user"
PASSWORD_FILE: Final = "headrace.sasl.inter.broker.password.file"
HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2
ITERATIONS_MAX: Final = 1_000_000  # more would only be to keep this broker busy
# Of a session's life, the part after which the connection is not used any more.
LIFE_USED: Final = 0.8
_SERVER_FIRST: Final = re.compile(r"r=([^,]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,7})")


class PeerRefused(OSError):
    """Another broker did not let this one in, or is not who it should be."""


class PeerSignIn:
    """Raises SettingError when what is set is not enough."""

    def __init__(self, config: BrokerConfig) -> None:
        wanted = config["sasl.mechanism.inter.broker.protocol"]
        self._mechanism = next(each for each in ScramMechanism if each.title == wanted)
        for name in (USER, PASSWORD_FILE):
            if config[name] is None:
                raise SettingError(f"{name} is not set; brokers sign in at the listener that they use among themselves")
        self._user: str = config[USER]
        try:
            self._password = Path(config[PASSWORD_FILE]).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"{PASSWORD_FILE}={config[PASSWORD_FILE]} cannot be read: {error}") from None
        self._salted: dict[tuple[bytes, int], bytes] = {}

    async def __call__(self, connection: "PeerConnection", client_id: str) -> float | None:
        """Sign in; answer for how many seconds that is good.  Raises PeerRefused."""
        handshake: SaslHandshakeResponse = await connection.send(
            SaslHandshakeRequest(mechanism=self._mechanism.title), HANDSHAKE_VERSION, client_id
        )
        if handshake.error_code:
            raise PeerRefused(f"it does not take {self._mechanism.title}")
        nonce = secrets.token_urlsafe(24)
        first = f"n={escaped(self._user)},r={nonce}"
        challenge = await self._say(connection, client_id, f"n,,{first}")
        server_first = challenge.auth_bytes.decode()
        found = _SERVER_FIRST.fullmatch(server_first)
        if found is None or not found[1].startswith(nonce) or not ITERATIONS_MIN <= int(found[3]) <= ITERATIONS_MAX:
            raise PeerRefused("its challenge is not to this broker's message")
        salted = await self._salted_with(base64.b64decode(found[2]), int(found[3]))
        bare = f"c=biws,r={found[1]}"
        signed = f"{first},{server_first},{bare}".encode()
        last = await self._say(connection, client_id, f"{bare},p={self._proof(salted, signed)}")
        server_key = hmac.digest(salted, b"Server Key", self._mechanism.digest)
        expected = b"v=" + base64.b64encode(hmac.digest(server_key, signed, self._mechanism.digest))
        if not hmac.compare_digest(bytes(last.auth_bytes), expected):
            raise PeerRefused("it does not know this broker's password itself")
        return last.session_lifetime_ms / 1000 * LIFE_USED if last.session_lifetime_ms else None

    async def _say(self, connection: "PeerConnection", client_id: str, text: str) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=text.encode())
        reply: SaslAuthenticateResponse = await connection.send(request, AUTHENTICATE_VERSION, client_id)
        if reply.error_code:
            raise PeerRefused(reply.error_message or "it did not let this broker in")
        return reply

    async def _salted_with(self, salt: bytes, iterations: int) -> bytes:
        """Computed in a thread, and once."""
        if (salt, iterations) not in self._salted:
            loop = asyncio.get_running_loop()
            salted = await loop.run_in_executor(None, salted_password, self._mechanism, self._password, salt, iterations)
            self._salted = {(salt, iterations): salted}
            return salted
        return self._salted[salt, iterations]

    def _proof(self, salted: bytes, signed: bytes) -> str:
        key = hmac.digest(salted, b"Client Key", self._mechanism.digest)
        stored = hashlib.new(self._mechanism.digest, key).digest()
        signature = hmac.digest(stored, signed, self._mechanism.digest)
        return base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
