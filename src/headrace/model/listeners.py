"""Where a broker listens and what it tells others about it: `listeners` and the settings around it, read and checked together.

A listener has a name.  `HOST:PORT` alone is the listener PLAINTEXT; several are written `NAME://HOST:PORT,NAME://HOST:PORT`.  A
client is told the addresses of the listener it came in by; brokers use the one that inter.broker.listener.name says.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, NamedTuple, Protocol

from headrace.declaring import dataclass
from headrace.model.settings import SettingError

PLAINTEXT = "PLAINTEXT"
SSL = "SSL"
SASL_PLAINTEXT = "SASL_PLAINTEXT"
SASL_SSL = "SASL_SSL"
PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)

LISTENERS = "listeners"
ADVERTISED = "advertised.listeners"
PROTOCOL_MAP = "listener.security.protocol.map"
INTER_BROKER = "inter.broker.listener.name"

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class Address(NamedTuple):
    """A host and a port.  No host: all addresses of this machine to listen on, and its name to be told."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_everywhere(self) -> bool:
        """Whether it stands for all addresses of a machine, where nobody can be sent."""
        number = _ip(self.host)
        return number is not None and number.is_unspecified


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One address to listen on, and the one that is told; a told port of 0 is the one that is bound."""

    name: str
    security_protocol: str
    address: Address
    advertised: Address

    @property
    def has_tls(self) -> bool:
        return self.security_protocol in (SSL, SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self.security_protocol in (SASL_PLAINTEXT, SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """All of a broker's, in the order in which they are set, and the name of the one that brokers use."""

    each: tuple[Listener, ...]
    inter_broker: str

    @property
    def have_tls(self) -> bool:
        """Whether any of them has."""
        return any(listener.has_tls for listener in self.each)

    @property
    def have_sasl(self) -> bool:
        return any(listener.has_sasl for listener in self.each)

    @property
    def of_brokers(self) -> Listener:
        """The one that brokers use."""
        return next(listener for listener in self.each if listener.name == self.inter_broker)


class Settings(Protocol):
    """What gives a setting's value by its name."""

    def __getitem__(self, name: str) -> Any: ...


def read_listeners(settings: Settings) -> Listeners:
    """The listeners that the settings ask for; SettingError says in a sentence what contradicts what."""
    bound = _named(LISTENERS, settings[LISTENERS])
    _check_ports(bound)
    protocols = _protocols(settings[PROTOCOL_MAP])
    advertised = _advertised(settings[ADVERTISED], bound)
    each = tuple(
        Listener(
            name=name,
            security_protocol=_protocol(name, protocols),
            address=address,
            advertised=_address_for_clients(name, address, advertised),
        )
        for name, address in bound.items()
    )
    return Listeners(each=each, inter_broker=_inter_broker(settings[INTER_BROKER], bound))


def check_names(wanted: Iterable[str], listeners: Listeners) -> None:
    """Whether all listeners that settings are for are there: a name that is mistyped would leave a door open."""
    names = [listener.name for listener in listeners.each]
    for name in wanted:
        if name not in names:
            raise SettingError(f"listener.name.{name.lower()}: {name} is not among the listeners, {', '.join(names)}")


def parse_address(text: str) -> Address:
    """HOST:PORT; raises ValueError with a sentence."""
    if "://" in text:
        scheme = text.split("://", 1)[0].strip()
        raise ValueError(f"{text!r} has the scheme {scheme}, which is unknown here; write HOST:PORT, such as 127.0.0.1:9092")
    host, colon, port = text.strip().rpartition(":")
    if not colon or not port.isdecimal() or not port.isascii() or int(port) > 65535:
        raise ValueError(f"{text!r} is not an address; write HOST:PORT, such as 127.0.0.1:9092")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if any(character in host for character in "[]/ "):
        raise ValueError(f"{text!r} is not an address; write HOST:PORT, such as 127.0.0.1:9092")
    return Address(host, int(port))


def _named(setting: str, text: str) -> dict[str, Address]:
    """The addresses by the names of their listeners."""
    found: dict[str, Address] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, scheme, rest = item.rpartition("://")
        name = name.upper() if scheme else PLAINTEXT
        if not _NAME.fullmatch(name):
            raise SettingError(f"{setting}: {name!r} is not a listener's name; write NAME://HOST:PORT")
        if name in found:
            raise SettingError(f"{setting}: {name} is used twice; give each listener a name of its own, as NAME://HOST:PORT")
        try:
            found[name] = parse_address(rest)
        except ValueError as error:
            raise SettingError(f"{setting}: {error}") from None
    if not found:
        raise SettingError(f"{setting} names no address; write HOST:PORT, such as 127.0.0.1:9092")
    return found


def _check_ports(bound: Mapping[str, Address]) -> None:
    ports = Counter(address.port for address in bound.values() if address.port)
    for port, count in ports.items():
        hosts = [_ip(address.host) for address in bound.values() if address.port == port]
        if count > 1 and not _are_two_families(hosts):
            names = " and ".join(name for name, address in bound.items() if address.port == port)
            raise SettingError(f"{LISTENERS}: {names} have the same port, {port}; give each listener a port of its own")


def _are_two_families(hosts: Sequence[IPv4Address | IPv6Address | None]) -> bool:
    """One IPv4 and one IPv6 address may share a port."""
    return len(hosts) == 2 and {type(host) for host in hosts} == {IPv4Address, IPv6Address}


def _protocols(text: str) -> dict[str, str]:
    protocols: dict[str, str] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in item.partition(":"))
        if not colon or not name:
            raise SettingError(f"{PROTOCOL_MAP}: {item!r} is not NAME:PROTOCOL, such as CLIENT:PLAINTEXT")
        if protocol not in PROTOCOLS:
            raise SettingError(f"{PROTOCOL_MAP}: {protocol} is not a security protocol; there are {', '.join(PROTOCOLS)}")
        if protocols.setdefault(name, protocol) != protocol:
            raise SettingError(f"{PROTOCOL_MAP}: {name} is used twice")
    return protocols


def _protocol(name: str, protocols: Mapping[str, str]) -> str:
    protocol = protocols.get(name)
    if protocol is None:
        raise SettingError(
            f"{LISTENERS}: the listener {name} has no security protocol; give it one in {PROTOCOL_MAP}, "
            f"such as {name}:SASL_SSL, or call it one of {', '.join(PROTOCOLS)}"
        )
    return protocol


def _advertised(text: str | None, bound: Mapping[str, Address]) -> dict[str, Address]:
    if text is None:
        return {}
    named = _named(ADVERTISED, text)
    if "://" not in text and len(bound) == 1:
        named = dict.fromkeys(bound, named[PLAINTEXT])
    for name, address in named.items():
        if name not in bound:
            if "://" not in text:
                offer = f"{next(iter(bound))}://{address}"
                raise SettingError(f"{ADVERTISED}: {address} names none of the listeners, {', '.join(bound)}; write {offer}, say")
            raise SettingError(f"{ADVERTISED}: {name} is not among the listeners, {', '.join(bound)}")
        if address.is_everywhere:
            raise SettingError(f"{ADVERTISED}: nobody can be sent to {address}; name a host that clients reach")
    return named


def _address_for_clients(name: str, address: Address, advertised: Mapping[str, Address]) -> Address:
    """What is said about a listener: what it is set to, else where it listens."""
    found = advertised.get(name, address)
    if found.is_everywhere:
        raise SettingError(
            f"{LISTENERS}: {address} listens on all addresses, and clients have to be told one: add --advertise HOST:PORT"
            f" ({ADVERTISED})"
        )
    return found


def _inter_broker(wanted: str | None, bound: Mapping[str, Address]) -> str:
    names = ", ".join(bound)
    if wanted is not None:
        if wanted.strip().upper() not in bound:
            raise SettingError(f"{INTER_BROKER}: {wanted} is not among the listeners, {names}")
        return wanted.strip().upper()
    if len(bound) == 1:
        return next(iter(bound))
    if PLAINTEXT in bound:
        return PLAINTEXT
    raise SettingError(f"{INTER_BROKER} is not set; name the listener of {names} that brokers use among themselves")


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
