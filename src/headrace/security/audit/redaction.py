"""Keeping secrets out of what is written down.

A value is hidden when its name says that it is a secret, and whatever looks like a secret is hidden wherever it stands.  Rather
too much is hidden than too little: the audit says that a password was changed, and never to what.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "[hidden]"

_SECRET_NAME: Final = re.compile(
    r"password|passwd|passphrase|secret|jaas|credential|salted|hmac|(?<!oauth)bearer|token(?!_?id|\.endpoint|\.max|\.expiry)"
    r"|private[._-]?key|keystore[._]key|stored[._]?key|server[._]?key|api[._-]?key|access[._-]?key",
    re.IGNORECASE,
)


def _hidden_token(found: re.Match[str]) -> str:
    return HIDDEN if found[1] else found[0]


def _hidden_in_address(found: re.Match[str]) -> str:
    return f"{found[1]}{HIDDEN}@" if found[2] else found[0]


# Texts may be a stranger's: none is looked at longer than its length is worth.  So what begins like a secret is taken as a whole,
# and whether it is one is decided then.
_SECRETS: Final = (
    # A private key in PEM, also one that is cut off.
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), HIDDEN),
    # A token, with or without what is said before it.
    (re.compile(r"\beyJ[A-Za-z0-9_-]{5,}+(\.[A-Za-z0-9_-]++(?:\.[A-Za-z0-9_-]*+)?)?"), _hidden_token),
    (re.compile(r"(\bbearer\s+)\S+", re.IGNORECASE), rf"\1{HIDDEN}"),
    # SCRAM-SHA-512=[iterations=8192,password=alice]
    (re.compile(r"(SCRAM-SHA-\d+\s*=\s*)\[[^\]]*\]?"), rf"\1{HIDDEN}"),
    # password="…", secret: …, token=…
    (
        re.compile(
            r"((?:password|passwd|passphrase|secret|token)[\"']?\s*[=:]\s*)(?:\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?|[^\s,;\"']+)",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    # https://user:password@host
    (re.compile(r"(://[^\s:/@]*+:)[^\s@]++(@?)"), _hidden_in_address),
)


def is_secret_name(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def redacted_text(text: str) -> str:
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def redacted(value: Any, name: str = "") -> Any:
    """The same value, lists and mappings included, without its secrets."""
    if value is None:
        return None
    if is_secret_name(name):
        return HIDDEN
    match value:
        case str():
            return redacted_text(value)
        case bytes():
            return f"{len(value)} bytes"
        case Mapping():
            return {str(key): redacted(each, str(key)) for key, each in value.items()}
        case list() | tuple():
            return [redacted(each, name) for each in value]
        case bool() | int() | float():
            return value
        case _:
            return redacted_text(str(value))
