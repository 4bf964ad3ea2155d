"""Where to connect and how, by what is given, the environment and a profile: the same rules for SDK, commands and Spark.

What is given counts more than a profile, and a profile that is given more than the environment.  An address that is given goes
without a profile that is not: nobody's password is sent to a broker that it was not meant for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from headrace.client.arguments import BOOTSTRAP_VARIABLE, bootstrap_address, mapping
from headrace.client.security.options import GROUPS, properties_of
from headrace.client.security.profiles import PROFILE_VARIABLE, Profile, default_profile, load_profile

Addresses = str | Iterable[str] | None


# Of librdkafka's properties, those that any other client at the same brokers needs as well.
CONNECTION_PROPERTIES: Final = (
    "security.",
    "sasl.",
    "ssl.",
    "enable.ssl",
    "enable.sasl",
    "oauth_cb",
    "broker.address.",
    "socket.",
)


class Way(NamedTuple):
    """An address, and librdkafka's properties beside it."""

    bootstrap: str
    properties: dict[str, Any]

    @property
    def for_others(self) -> dict[str, Any]:
        """Of the properties, those of the connection: what other clients need to go the same way."""
        return {name: value for name, value in self.properties.items() if name.startswith(CONNECTION_PROPERTIES)}


def way_to(
    bootstrap: Addresses,
    options: Mapping[str, Any],
    librdkafka: Mapping[str, Any] | None = None,
    *,
    takes_default: bool = False,
) -> Way:
    """`takes_default`: whether the file's own default holds where nothing is named, as it does for people who type commands."""
    extra = mapping("librdkafka", {} if librdkafka is None else librdkafka, "librdkafka's settings by name")
    profile = _profile(options.get("profile"), bootstrap, takes_default=takes_default)
    if profile is None:
        return Way(bootstrap_address(bootstrap), {**properties_of(options), **extra})
    address = bootstrap
    if address is None:
        # An argument counts more than the environment, and the environment more than a file that it does not name.
        from_environment = None if options.get("profile") else os.environ.get(BOOTSTRAP_VARIABLE)
        address = from_environment or profile.bootstrap
    merged = _on_top(profile.options, options)
    return Way(bootstrap_address(address), {**profile.librdkafka, **properties_of(merged), **extra})


def _profile(named: str | Path | None, bootstrap: Addresses, *, takes_default: bool) -> Profile | None:
    if named:
        return load_profile(named)
    if bootstrap is not None:
        return None
    from_environment = os.environ.get(PROFILE_VARIABLE)
    if from_environment:
        return load_profile(from_environment)
    return default_profile() if takes_default and not os.environ.get(BOOTSTRAP_VARIABLE) else None


def _on_top(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """A password that is given replaces a file's name below, and a certificate another's key; not so a user's name alone."""
    given = {name: value for name, value in above.items() if value is not None}
    replaced = {name for group in GROUPS if set(group) & set(given) for name in group}
    if given.keys() & set(GROUPS[0]) <= {"password", "password_file"}:
        replaced.discard("username")
    return {**{name: value for name, value in below.items() if name not in replaced}, **given}
