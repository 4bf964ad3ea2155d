"""An authority for tests, with a broker's and clients' certificates in files."""

import ssl
from datetime import datetime
from pathlib import Path

import trustme


class Authority:
    """Signs, and writes PEM files into a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._authority = trustme.CA()
        self.folder = folder
        self.file = folder / f"{name}.pem"
        self.write()

    def write(self) -> None:
        """Put its certificate where those look who trust it."""
        self._authority.cert_pem.write_to_path(str(self.file))

    def of_broker(
        self, name: str = "broker", not_after: datetime | None = None, key_type: trustme.KeyType = trustme.KeyType.ECDSA
    ) -> Path:
        """A file with a key and the certificate of localhost."""
        path = self.folder / f"{name}.pem"
        certificate = self._authority.issue_cert("localhost", "127.0.0.1", not_after=not_after, key_type=key_type)
        return _written(certificate, path)

    def of_host(self, host: str) -> Path:
        """A file with a key and the certificate of a host."""
        path = self.folder / f"{host.replace('*', 'all')}.pem"
        return _written(self._authority.issue_cert(host), path)

    def of_client(self, common_name: str, name: str = "client", not_after: datetime | None = None) -> Path:
        """A file with a key and a client's certificate."""
        path = self.folder / f"{name}.pem"
        certificate = self._authority.issue_cert("client.example", common_name=common_name, not_after=not_after)
        return _written(certificate, path)

    def context(self, client: Path | None = None) -> ssl.SSLContext:
        """How a client that trusts this authority speaks TLS."""
        context = ssl.create_default_context(cafile=str(self.file))
        if client is not None:
            context.load_cert_chain(client)
        return context


def _written(certificate: trustme.LeafCert, path: Path) -> Path:
    """A key is its owner's alone, or else it is refused."""
    certificate.private_key_and_cert_chain_pem.write_to_path(str(path))
    path.chmod(0o600)
    return path
