"""Files with secrets: read only where nobody else can read them."""

import os
import stat
from pathlib import Path
from typing import Final

SECRET_BYTES_MAX: Final = 1 << 20
_ROOT: Final = 0


class SecretFileError(ValueError):
    """A file with a secret cannot be used; the sentence begins with what the file is."""


def require_private(path: Path, what: str, *, from_group: bool = True) -> None:
    """Raises SecretFileError when others may read the file; its group, too, unless it may (`from_group`)."""
    try:
        found = path.stat()
    except OSError as error:
        raise SecretFileError(f"{what} {path} cannot be read: {error.strerror}") from None
    # What comes out of a pipe is nobody else's.
    if not stat.S_ISREG(found.st_mode):
        return
    # A file of root's that a group may read is how secrets are handed to services that do not run as root.
    is_handed_over = found.st_uid == _ROOT != os.geteuid()
    if found.st_mode & (0o077 if from_group and not is_handed_over else 0o007):
        mode = "600" if from_group else "640"
        raise SecretFileError(f"{what} {path} holds a secret, and others may read it; run: chmod {mode} {path}")


def first_line(path: Path, what: str) -> str:
    """The secret in a file's first line.  Raises SecretFileError."""
    require_private(path, what)
    try:
        with path.open(encoding="utf-8") as file:
            secret = file.read(SECRET_BYTES_MAX).partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretFileError(f"{what} {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not secret:
        raise SecretFileError(f"{what} {path} has nothing in its first line")
    return secret
