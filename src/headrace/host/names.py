"""What this machine is called."""

import socket


def name_of_this_machine() -> str:
    """The name under which others may reach it."""
    full = socket.getfqdn()
    # Where no name server knows the machine, some look-ups fall back on the loopback address.
    return socket.gethostname() if full.startswith("localhost") else full
