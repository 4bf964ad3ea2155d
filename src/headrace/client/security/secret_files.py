"""Files with secrets: read only where nobody else can read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from headrace.client.errors import InvalidArgument

SECRET_BYTES_MAX: Final = 1 << 20
_ROOT: Final = 0


def require_private(path: Path, what: str) -> None:
    """Raises InvalidArgument when others may read the file."""
    try:
        found = path.stat()
    except OSError as error:
        raise InvalidArgument(f"{what} {path} cannot be read: {error.strerror}") from None
    # What comes out of a pipe is nobody else's.
    if not stat.S_ISREG(found.st_mode):
        return
    # A file of root's that a group may read is how secrets are handed to services that do not run as root.
    is_handed_over = found.st_uid == _ROOT != os.geteuid()
    if found.st_mode & (0o007 if is_handed_over else 0o077):
        raise InvalidArgument(f"{what} {path} holds a secret, and others may read it; run: chmod 600 {path}")


def first_line(path: Path, what: str) -> str:
    """The secret in a file's first line."""
    require_private(path, what)
    try:
        with path.open(encoding="utf-8") as file:
            secret = file.read(SECRET_BYTES_MAX).partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{what} {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not secret:
        raise InvalidArgument(f"{what} {path} has nothing in its first line")
    return secret


def has_private_key(path: Path) -> bool:
    """Whether a PEM file has a private key in it, beside certificates."""
    try:
        return b"PRIVATE KEY-----" in path.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"certificate_file {path} cannot be read: {error.strerror}") from None
