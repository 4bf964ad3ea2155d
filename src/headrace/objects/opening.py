"""A store from its URL.  What a cloud needs is imported only for a URL of one."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.model.settings import SettingError
from headrace.objects.store import ObjectStore

CLOUDS = frozenset({"s3", "s3a", "gs", "az", "azure", "abfs", "abfss"})


def check_url(url: str) -> None:
    """Raises SettingError for what cannot be a store's address."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc or not parts.path.strip("/"):
            raise SettingError(f"{url} names no folder; write file:///folder")
    elif parts.scheme not in CLOUDS:
        raise SettingError(
            f"{url} is not the address of an object store; write s3://bucket/prefix, gs://, az:// or file:///folder"
        )
    elif not parts.netloc:
        raise SettingError(f"{url} names no bucket")
    if parts.password or parts.query:
        raise SettingError("credentials do not belong into the address of a store; give them as its own tools take them")


def open_object_store(url: str, timeout_s: float = 30.0) -> ObjectStore:
    """Raises SettingError when it cannot be one, or when what it takes is not installed."""
    check_url(url)
    parts = urlsplit(url)
    if parts.scheme == "file":
        from headrace.objects.folder import FolderStore

        return FolderStore(Path(unquote(parts.path)), timeout_s)
    try:
        from headrace.objects.cloud import CloudStore
    except ImportError as error:
        raise SettingError(f"{parts.scheme}:// needs obstore; install headrace[tiered]") from error
    try:
        return CloudStore(url, timeout_s)
    except Exception as error:
        raise SettingError(f"{url} cannot be opened: {error}") from error
