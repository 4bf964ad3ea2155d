"""Where webhooks may go: public addresses only, unless a network is named.  Names are looked up when a connection is made, and
the address that was looked at is the one that is connected to."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from headrace.gateway.serving.problems import Problem

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_NEVER_PUBLIC: Final = (
    ipaddress.IPv4Network("168.63.129.16/32"),  # Azure's own services, from every machine there
    ipaddress.IPv4Network("192.0.0.0/24"),  # of protocols (RFC 6890); Oracle's metadata service has been there
    ipaddress.IPv6Network("fec0::/10"),  # site-local, before there were unique local addresses
)
URL_CHARACTERS_MAX: Final = 2048


class Forbidden(OSError):
    """An address to which no webhook goes."""


class Guard:
    """`networks` are private ones that are allowed all the same."""

    def __init__(self, networks: Iterable[str], *, plain_http: bool) -> None:
        """Raises ValueError for what is no network."""
        self._networks: list[Network] = [ipaddress.ip_network(each, strict=False) for each in networks]
        self._plain_http = plain_http

    def check_url(self, url: str) -> None:
        """Raises a Problem where nothing may be sent."""
        refused = self._why_refused(url)
        if refused is not None:
            raise Problem(422, "callback_refused", refused, "Give a public https:// address; an operator may allow more.")

    def _why_refused(self, url: str) -> str | None:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            return "The callback_url is not a URL."
        if len(url) > URL_CHARACTERS_MAX or not host or not url.isascii() or not url.isprintable() or " " in url:
            return "The callback_url is not a URL."
        if parts.scheme != "https" and not (parts.scheme == "http" and self._plain_http):
            return "The callback_url does not begin with https://."
        if parts.username is not None or parts.fragment:
            return "The callback_url has credentials or a fragment in it."
        try:
            literal = ipaddress.ip_address(host)
        except ValueError:
            # 127.1, 2130706433 and 0x7f.1 are addresses to some, and no names to anybody.
            is_number = re.fullmatch(r"(0x[0-9a-f]*|[0-9]+)", host.rstrip(".").rpartition(".")[2]) is not None
            return "The callback_url has an address that is not written in full." if is_number or ":" in host else None
        return None if self.allows(literal) else "The callback_url is in a network to which no webhook goes."

    def allows(self, address: Address) -> bool:
        plain = _unwrapped(address)
        if any(plain in network or address in network for network in self._networks):
            return True
        if any(plain in network for network in _NEVER_PUBLIC):
            return False
        return plain.is_global and not plain.is_multicast and not plain.is_reserved

    def resolver(self) -> AbstractResolver:
        return _Resolver(self)


def _unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, where it does."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


class _Resolver(AbstractResolver):
    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._resolver = ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        allowed = [each for each in found if self._guard.allows(ipaddress.ip_address(each["host"].partition("%")[0]))]
        if not allowed:
            raise Forbidden("the name stands for an address to which no webhook goes")
        return allowed

    async def close(self) -> None:
        await self._resolver.close()
