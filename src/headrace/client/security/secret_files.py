"""Files with secrets, as a client's arguments: what is wrong with one is the caller's to mend."""

from __future__ import annotations

from pathlib import Path

from headrace.client.errors import InvalidArgument
from headrace.host import secret_files
from headrace.host.secret_files import SecretFileError


def require_private(path: Path, what: str, *, from_group: bool = True) -> None:
    """Raises InvalidArgument when others may read the file; its group, too, unless it may (`from_group`)."""
    try:
        secret_files.require_private(path, what, from_group=from_group)
    except SecretFileError as error:
        raise InvalidArgument(str(error)) from None


def first_line(path: Path, what: str) -> str:
    """The secret in a file's first line."""
    try:
        return secret_files.first_line(path, what)
    except SecretFileError as error:
        raise InvalidArgument(str(error)) from None


def has_private_key(path: Path) -> bool:
    """Whether a PEM file has a private key in it, beside certificates."""
    try:
        return b"PRIVATE KEY-----" in path.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"certificate_file {path} cannot be read: {error.strerror}") from None
