"""How this broker signs in at others: SCRAM, the client's side.  It checks that the other one knows its credentials, too."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.host.secret_files import SecretFileError, first_line
from headrace.model.access.scram import ScramMechanism, salted_password
from headrace.model.access.scram_client import NotTheirAnswer, ScramClient
from headrace.model.broker_settings import BrokerConfig
from headrace.model.settings import SettingError
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from headrace.broker.cluster.peers import PeerConnection

USER: Final = "headrace.sasl.inter.broker.user"
PASSWORD_FILE: Final = "headrace.sasl.inter.broker.password.file"
HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2
# Of a session's life, the part after which the connection is not used any more.
LIFE_USED: Final = 0.8


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
            self._password = first_line(Path(config[PASSWORD_FILE]), PASSWORD_FILE)
        except SecretFileError as error:
            raise SettingError(str(error)) from None
        self._salted: dict[tuple[bytes, int], bytes] = {}

    async def __call__(self, connection: "PeerConnection", client_id: str) -> float | None:
        """Sign in; answer for how many seconds that is good.  Raises PeerRefused."""
        handshake: SaslHandshakeResponse = await connection.send(
            SaslHandshakeRequest(mechanism=self._mechanism.title), HANDSHAKE_VERSION, client_id
        )
        if handshake.error_code:
            raise PeerRefused(f"it does not take {self._mechanism.title}")
        scram = ScramClient(self._mechanism, self._user)
        try:
            challenge = await self._say(connection, client_id, scram.first)
            salted = await self._salted_with(*scram.take_challenge(bytes(challenge.auth_bytes)))
            last = await self._say(connection, client_id, scram.final(salted))
            scram.verify(bytes(last.auth_bytes))
        except NotTheirAnswer as error:
            raise PeerRefused(str(error)) from None
        return last.session_lifetime_ms / 1000 * LIFE_USED if last.session_lifetime_ms else None

    async def _say(self, connection: "PeerConnection", client_id: str, message: bytes) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=message)
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
