"""Which metadata store a broker's settings ask for: memory, the embedded file, or etcd."""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.host.entropy import Entropy
from headrace.host.secret_files import SecretFileError, require_private
from headrace.metadata.memory import MemoryStore
from headrace.metadata.migration import import_metadata
from headrace.metadata.sqlite import SqliteStore
from headrace.metadata.store import MetadataStore
from headrace.model.broker_settings import BrokerConfig
from headrace.model.settings import SettingError

if TYPE_CHECKING:
    from headrace.metadata.etcd_http import EtcdAddress

logger = logging.getLogger(__name__)

EMBEDDED = "embedded"
FILE_NAME = "metadata.sqlite"
AUTHORITY, CERTIFICATE, KEY = "headrace.metadata.ca", "headrace.metadata.certificate", "headrace.metadata.key"


async def open_store(config: BrokerConfig, entropy: Entropy) -> MetadataStore:
    """Raises SettingError with a sentence when the setting makes no sense."""
    where: str = config["headrace.metadata"]
    if where != EMBEDDED:
        # Loaded when asked for: its HTTP client takes a quarter of the time and of the memory of an idle single node.
        from headrace.metadata.etcd import EtcdStore

        store = EtcdStore(etcd_address(config), entropy, config["headrace.metadata.namespace"])
        try:
            await _bring_along(Path(config["log.dirs"]) / FILE_NAME, store)
        except BaseException:
            await store.close()
            raise
        return store
    if config["headrace.memory"]:
        return MemoryStore(alone=True)
    return await SqliteStore.open(Path(config["log.dirs"]) / FILE_NAME)


async def _bring_along(file: Path, store: MetadataStore) -> None:
    """A single node that joins a cluster brings its topics and settings; its own file is kept under another name."""
    loop = asyncio.get_running_loop()
    if not await loop.run_in_executor(None, file.exists):
        return
    source = await SqliteStore.open(file)
    try:
        await import_metadata(source, store)
    finally:
        await source.close()
    await loop.run_in_executor(None, file.rename, file.with_name(FILE_NAME + ".imported"))
    logger.info("the metadata of %s is now in etcd", file.parent)


def etcd_address(config: BrokerConfig) -> "EtcdAddress":
    """The endpoints, with TLS when an authority or a certificate is given."""
    from headrace.metadata.etcd_http import EtcdAddress

    scheme, separator, hosts = str(config["headrace.metadata"]).partition("://")
    if "@" in hosts:
        # Addresses are told in the log and by DescribeConfigs.
        raise SettingError(
            "headrace.metadata has a user or a password in it; give them as headrace.metadata.user and headrace.metadata.password"
        )
    if scheme not in ("etcd", "etcds") or not separator or not hosts:
        raise SettingError(
            f"headrace.metadata is {config['headrace.metadata']!r}; write `embedded` or etcd://HOST:PORT,HOST:PORT"
        )
    context = _ssl_context(config) if scheme == "etcds" or _wants_tls(config) else None
    protocol = "http" if context is None else "https"
    return EtcdAddress(
        endpoints=tuple(f"{protocol}://{host.strip()}" for host in hosts.split(",")),
        user=config["headrace.metadata.user"],
        password=config["headrace.metadata.password"],
        ssl_context=context,
    )


def _wants_tls(config: BrokerConfig) -> bool:
    return bool(config[AUTHORITY] or config[CERTIFICATE])


def _ssl_context(config: BrokerConfig) -> ssl.SSLContext:
    certificate, key = config[CERTIFICATE], config[KEY]
    try:
        context = ssl.create_default_context(cafile=config[AUTHORITY])
        if certificate:
            context.load_cert_chain(certificate, key)
            # As the key of a listener.
            require_private(Path(key or certificate), KEY if key else CERTIFICATE, from_group=False)
    except SecretFileError as error:
        raise SettingError(str(error)) from None
    except OSError as error:
        files = f"{AUTHORITY}={config[AUTHORITY]}, {CERTIFICATE}={certificate}, {KEY}={key}"
        raise SettingError(f"the files for TLS with etcd cannot be used ({files}): {error.strerror or error}") from None
    return context
