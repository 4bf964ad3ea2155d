"""How to get in, as keyword arguments that every client takes and as keys of a profile; what they are for librdkafka.

Whatever contradicts itself is refused here, with a sentence that names both sides, and not by a broker later.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from headrace.client.arguments import choice
from headrace.client.errors import InvalidArgument
from headrace.client.security.sasl import KNOWN, OAUTHBEARER
from headrace.client.security.secret_files import first_line, has_private_key, require_private
from headrace.client.security.tokens import TokenCall, TokenSource

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"


class SecurityOptions(TypedDict, total=False):
    """How to get in.  Every client takes these, and a profile has them as keys.

    What is left out follows from the rest: a `username` or a token means SASL_SSL, and SCRAM-SHA-512 unless another mechanism is
    named; a certificate or an authority means SSL.  Files that hold secrets are refused where others may read them.
    """

    profile: str | Path | None
    """The name of a profile in `~/.config/headrace/config.toml`, or a file of the same form; else `HEADRACE_PROFILE` from the
    environment.  What is given beside it counts more."""
    security_protocol: Protocol | None
    """PLAINTEXT, SSL (TLS), SASL_PLAINTEXT (signing in without TLS) or SASL_SSL."""
    sasl_mechanism: Mechanism | None
    """PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."""
    username: str | None
    """Who signs in."""
    password: str | None
    """The password; better in a file."""
    password_file: str | Path | None
    """A file with the password in its first line."""
    token: str | TokenCall | None
    """For OAUTHBEARER: a token, or a function that returns one whenever a new one is needed."""
    token_file: str | Path | None
    """A file with the token in its first line, read again whenever a new one is needed."""
    ca_file: str | Path | None
    """The certificates of the authorities that are trusted, in PEM; else those of the system."""
    certificate_file: str | Path | None
    """The client's own certificate with its chain, in PEM, and its key unless that is in `key_file`."""
    key_file: str | Path | None
    """The key of the certificate, in PEM."""
    key_password_file: str | Path | None
    """A file with the password of an encrypted key in its first line."""


NAMES: Final = tuple(SecurityOptions.__annotations__)
FILES: Final = ("password_file", "token_file", "ca_file", "certificate_file", "key_file", "key_password_file")
# One of a group that is given takes the place of all others in it.
GROUPS: Final = (
    ("username", "password", "password_file", "token", "token_file"),
    ("certificate_file", "key_file", "key_password_file"),
)


def check_names(given: Mapping[str, Any], call: str) -> None:
    """As Python says it of any other argument."""
    for name in given:
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1)
            hint = f". Did you mean '{near[0]}'?" if near else ""
            raise TypeError(f"{call}() got an unexpected keyword argument '{name}'{hint}")


def properties_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """As librdkafka's properties.  Raises InvalidArgument where they contradict each other, or a file cannot be used."""
    given = {name: value for name, value in options.items() if value is not None and name != "profile"}
    if not given:
        return {}
    _check_types(given)
    _check_pairs(given)
    protocol = given.get("security_protocol") or _protocol(given)
    _check_protocol(protocol, given)
    properties: dict[str, Any] = {"security.protocol": protocol}
    if "SASL" in protocol:
        properties |= _signing_in(given)
    if "SSL" in protocol:
        properties |= _files(given)
    return properties


def _check_types(given: Mapping[str, Any]) -> None:
    if "security_protocol" in given:
        choice("security_protocol", given["security_protocol"], PROTOCOLS)
    if "sasl_mechanism" in given:
        choice("sasl_mechanism", given["sasl_mechanism"], KNOWN)
    for name in ("username", "password"):
        if name in given and (not isinstance(given[name], str) or not given[name]):
            shown = "" if name == "password" else f"={given[name]!r}"
            raise InvalidArgument(f"{name}{shown} is not accepted; accepted: a text that is not empty")
    for name in FILES:
        if name in given and not isinstance(given[name], str | Path):
            raise InvalidArgument(f"{name}={given[name]!r} is not accepted; accepted: the name of a file")
    if "token" in given and not isinstance(given["token"], str) and not callable(given["token"]):
        raise InvalidArgument("token is not accepted; accepted: a text, or a function that returns one")


def _check_pairs(given: Mapping[str, Any]) -> None:
    """What does not go together, or not alone."""
    for one, other in (("password", "password_file"), ("token", "token_file"), ("username", "token"), ("username", "token_file")):
        if one in given and other in given:
            raise InvalidArgument(f"{one} and {other} do not go together; give one of them")
    for one, needed in (
        ("password", "username"),
        ("password_file", "username"),
        ("key_file", "certificate_file"),
        ("key_password_file", "certificate_file"),
    ):
        if one in given and needed not in given:
            raise InvalidArgument(f"{one} needs {needed} beside it")
    if "username" in given and "password" not in given and "password_file" not in given:
        raise InvalidArgument("username needs password or password_file beside it")
    mechanism, has_token = given.get("sasl_mechanism"), "token" in given or "token_file" in given
    if mechanism == OAUTHBEARER and "username" in given:
        raise InvalidArgument("sasl_mechanism OAUTHBEARER takes a token, not username; give token or token_file")
    if mechanism not in (None, OAUTHBEARER) and has_token:
        raise InvalidArgument(f"sasl_mechanism {mechanism} takes username and a password, not a token")


def _protocol(given: Mapping[str, Any]) -> str:
    return "SASL_SSL" if {"username", "token", "token_file", "sasl_mechanism"} & set(given) else "SSL"


def _check_protocol(protocol: str, given: Mapping[str, Any]) -> None:
    signing_in = next((name for name in (*GROUPS[0], "sasl_mechanism") if name in given), None)
    if "SASL" in protocol:
        if not {"username", "token", "token_file"} & set(given):
            raise InvalidArgument(f"security_protocol {protocol} needs username and a password, or a token")
    elif signing_in is not None:
        other = "SASL_SSL" if protocol == "SSL" else "SASL_SSL or SASL_PLAINTEXT"
        raise InvalidArgument(f"security_protocol {protocol} does not go with {signing_in}; use {other} to sign in")
    certificates = next((name for name in ("ca_file", *GROUPS[1]) if name in given), None)
    if certificates is not None and "SSL" not in protocol:
        other = "SSL" if protocol == "PLAINTEXT" else "SASL_SSL"
        raise InvalidArgument(f"security_protocol {protocol} does not go with {certificates}; use {other} for TLS")


def _signing_in(given: Mapping[str, Any]) -> dict[str, Any]:
    if "username" not in given:
        file = Path(given["token_file"]) if "token_file" in given else None
        if file is not None:
            first_line(file, "token_file")  # what is wrong with it is better said now than by a client that waits
        return {"sasl.mechanism": OAUTHBEARER, "oauth_cb": TokenSource(given.get("token"), file)}
    password = given.get("password") or first_line(Path(given["password_file"]), "password_file")
    mechanism = given.get("sasl_mechanism") or DEFAULT_MECHANISM
    return {"sasl.mechanism": mechanism, "sasl.username": given["username"], "sasl.password": password}


def _files(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "ca_file" in given:
        if not Path(given["ca_file"]).exists():
            raise InvalidArgument(f"ca_file {given['ca_file']} does not exist")
        found["ssl.ca.location"] = str(given["ca_file"])
    if "certificate_file" in given:
        certificate = Path(given["certificate_file"])
        key = Path(given["key_file"]) if "key_file" in given else certificate
        if key != certificate or has_private_key(certificate):
            require_private(key, "key_file" if key != certificate else "certificate_file")
        found |= {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
    if "key_password_file" in given:
        found["ssl.key.password"] = first_line(Path(given["key_password_file"]), "key_password_file")
    return found
