"""As who this broker comes to others, which they are told with its registration."""

import asyncio
import logging
from typing import Final

from headrace.broker.cluster.peers import Peers
from headrace.broker.sign_in.peer import USER
from headrace.broker.tls.tls import ListenerTls
from headrace.metadata.membership import BrokerMembership
from headrace.metadata.store import StoreUnavailable
from headrace.model.access.principals import ANONYMOUS, Principal, user
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import RequestError
from headrace.model.listeners import Listener

logger = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 1.0


class OwnName:
    """The user that it signs in as, or its certificate's name, at the listener that brokers use."""

    def __init__(self, listener: Listener, settings: BrokerConfig, tls: ListenerTls | None) -> None:
        """`tls` is the listener's, if it has any."""
        self._signs_in_as: str | None = settings[USER] if listener.has_sasl else None
        self._tls = None if listener.has_sasl else tls

    @property
    def principal(self) -> Principal:
        """It shows its certificate to whoever asks, also while its own listener asks for none."""
        if self._signs_in_as is not None:
            return user(self._signs_in_as)
        return self._tls.contexts.principal if self._tls is not None else ANONYMOUS

    async def tell(self, membership: BrokerMembership, peers: Peers) -> None:
        """Where a new certificate has another name, have others know it, and come to them by it."""
        if self.principal == membership.registration.principal:
            return
        while True:
            try:
                await membership.update(principal=self.principal)
                break
            except (StoreUnavailable, RequestError) as error:
                logger.warning("could not tell the other brokers the name in the new certificate: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)
        # The connections that there are still have the old one.
        peers.close()
