"""The keys that tokens are signed with, fetched from where the settings say, and nowhere else."""

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from headrace.host.clock import Clock
from headrace.model.broker_settings import BrokerConfig
from headrace.model.settings import SettingError

if TYPE_CHECKING:
    from headrace.security.authentication.oauthbearer import OAuthBearerExchange

logger = logging.getLogger(__name__)

URL = "sasl.oauthbearer.jwks.endpoint.url"
FETCH_SECONDS_MAX = 10.0
# After a failure, how long until the next try, where that is sooner than the next fetch would be.
RETRY_SECONDS = 10.0
DOCUMENT_BYTES_MAX = 1024 * 1024
OK = 200


class TokenKeys:
    """Makes exchanges for OAUTHBEARER.  Until the keys are there, nobody's token is valid."""

    def __init__(self, config: BrokerConfig, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        try:
            from headrace.security.authentication.oauthbearer import OAuthBearerExchange
            from headrace.security.authentication.signing_keys import SigningKeys
            from headrace.security.authentication.tokens import TokenRules
        except ImportError:
            raise SettingError("OAUTHBEARER needs libraries to check tokens: install headrace[security]") from None
        for name in (URL, "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.audience"):
            if not config[name]:
                raise SettingError(f"OAUTHBEARER needs {name}")
        self._make = OAuthBearerExchange
        self._url = _checked(config[URL])
        self._refresh_seconds: float = config["sasl.oauthbearer.jwks.endpoint.refresh.ms"] / 1000
        self._loop = loop
        self._clock = clock
        self._wanted = asyncio.Event()
        self._keys = SigningKeys(None, self._ask, loop.time)
        self._rules = TokenRules(
            issuer=config["sasl.oauthbearer.expected.issuer"],
            audiences=frozenset(config["sasl.oauthbearer.expected.audience"]),
            scopes=frozenset(config["headrace.sasl.oauthbearer.required.scopes"]),
            scope_claim=config["sasl.oauthbearer.scope.claim.name"],
            user_claim=config["sasl.oauthbearer.sub.claim.name"],
            groups_claim=config["headrace.sasl.oauthbearer.groups.claim.name"],
            clock_skew_s=config["sasl.oauthbearer.clock.skew.seconds"],
        )

    def exchange(self) -> "OAuthBearerExchange":
        return self._make(self._keys, self._rules, lambda: self._clock.wall_ms() / 1000)

    def _ask(self) -> None:
        # Tokens are checked in threads.
        self._loop.call_soon_threadsafe(self._wanted.set)

    async def fetch_for_ever(self) -> None:
        """Fetch the keys now, when they are asked for, and every so often."""
        while True:
            self._wanted.clear()
            seconds = self._refresh_seconds
            try:
                async with asyncio.timeout(FETCH_SECONDS_MAX):
                    self._keys.replace(await self._document())
            except Exception as error:
                seconds = min(seconds, RETRY_SECONDS)
                why = str(error) or type(error).__name__  # a timeout has no words
                logger.error("the keys of tokens cannot be had from %s, and the old ones stay: %s", self._url, why)
            try:
                async with asyncio.timeout(seconds):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _document(self) -> Mapping[str, Any]:
        if self._url.startswith("file:"):
            path = Path(unquote(urlsplit(self._url).path))
            text = await self._loop.run_in_executor(None, path.read_bytes)
        else:
            text = await fetched(self._url)
        document: Mapping[str, Any] = json.loads(text)
        return document


async def fetched(url: str) -> bytes:
    """The whole document, in however many pieces it comes."""
    from aiohttp import ClientSession

    async with ClientSession(raise_for_status=True) as session, session.get(url, allow_redirects=False) as response:
        if response.status != OK:
            raise ValueError(f"it answers {response.status}, and keys are taken from nowhere else")
        text = bytearray()
        async for piece in response.content.iter_any():
            text += piece
            if len(text) > DOCUMENT_BYTES_MAX:
                raise ValueError(f"the document has more than {DOCUMENT_BYTES_MAX} bytes")
        return bytes(text)


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if "@" in parts.netloc:
        # The address is told in the log and by DescribeConfigs.
        raise SettingError(f"{URL} has a user or a password in it; keys that tokens are checked with are public, leave it out")
    if parts.scheme not in ("https", "file"):
        raise SettingError(f"{URL}={url}: write https://… or file:///…")
    return url
