"""The names of listeners, and addresses written as HOST:PORT."""

from headrace.controller.entries import BrokerRegistration, Endpoint

CLIENTS = "CLIENTS"


def endpoint_of(member: BrokerRegistration) -> Endpoint | None:
    """Where clients, and the other brokers, reach a broker."""
    return member.endpoint(CLIENTS)


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT, with or without a listener's name in front; raises ValueError with a sentence."""
    address = text.split("://", 1)[-1].strip()
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is not an address; write HOST:PORT, such as 127.0.0.1:9092")
    return host.strip("[]") or "0.0.0.0", int(port)
