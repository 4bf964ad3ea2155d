"""Which address a broker is known by to somebody who came in by a listener."""

from headrace.controller.entries import BrokerRegistration, Endpoint
from headrace.model.listeners import PLAINTEXT

OLD_NAME = "CLIENTS"
"""How brokers before named listeners registered the one they had."""


def endpoint_of(member: BrokerRegistration, listener: str) -> Endpoint | None:
    """Where a broker is reached by those who use this listener; None where it has no such listener."""
    found = member.endpoint(listener)
    return member.endpoint(OLD_NAME) if found is None and listener == PLAINTEXT else found
