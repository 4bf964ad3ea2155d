"""An authority and certificates for development and tests, in PEM files: `cryptography` is needed for it."""

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY: Final = "ca.pem"
AUTHORITY_KEY: Final = "ca.key"
BROKER: Final = "broker.pem"
LIFE: Final = timedelta(days=365)
# Clocks differ.
BACKDATED: Final = timedelta(hours=1)


class DevelopmentAuthority:
    """Keeps its key and certificate in a folder; makes them when they are not there."""

    def __init__(self, folder: Path) -> None:
        """Raises ImportError where `cryptography` is not installed."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / AUTHORITY
        if self.file.exists():
            key = load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey), "an authority of this command's has such a key"
            self._key, self._certificate = key, x509.load_pem_x509_certificate(self.file.read_bytes())
            return
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._signed(_name("Headrace development authority"), self._key, is_authority=True)
        _write_secret(folder / AUTHORITY_KEY, _key_bytes(self._key))
        self.file.write_bytes(_bytes(self._certificate))

    def issue_broker(self, hosts: Sequence[str], name: str = BROKER) -> Path:
        """A key with a certificate for the hosts, which a broker also shows to other brokers."""
        return self._issue(name, hosts[0], hosts)

    def issue_client(self, user: str, name: str = "") -> Path:
        """A key with a certificate that names a user."""
        return self._issue(name or f"{user}.pem", user, ())

    def _issue(self, file: str, common_name: str, hosts: Sequence[str]) -> Path:
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(_name(common_name), key, hosts=hosts)
        path = self.folder / file
        _write_secret(path, _key_bytes(key) + _bytes(certificate))
        return path

    def _signed(
        self, subject: "x509.Name", key: "EllipticCurvePrivateKey", *, hosts: Sequence[str] = (), is_authority: bool = False
    ) -> "x509.Certificate":
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if is_authority else self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATED)
            .not_valid_after(now + LIFE * (10 if is_authority else 1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if is_authority:
            builder = builder.add_extension(_signs_certificates(), critical=True)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _name(common_name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _signs_certificates() -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_bytes(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _bytes(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _write_secret(path: Path, content: bytes) -> None:
    """Whole, in one step, and for its owner only."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    beside.replace(path)
