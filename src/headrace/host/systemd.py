"""What the service manager that started this process is told, by systemd's protocol; nothing where there is none."""

import logging
import os
import socket

logger = logging.getLogger(__name__)


def tell_service_manager(*facts: str) -> None:
    """`READY=1`, `STOPPING=1`, `STATUS=...`: see sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.connect(address)
            manager.sendall("\n".join(facts).encode())
    except OSError as error:
        logger.warning("the service manager at NOTIFY_SOCKET cannot be told %s: %s", ", ".join(facts), error)
