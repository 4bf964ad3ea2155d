"""What TLS needs, out of files: contexts for those who come and for connections to other brokers, and the names in certificates.

A context is made once and never changed.  When the files change, others take its place, for new connections; files that cannot be
used are an error in the log, and what there was before stays.
"""

import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from headrace.declaring import dataclass
from headrace.host.secret_files import SecretFileError, require_private
from headrace.model.access.principals import ANONYMOUS, Principal, user
from headrace.model.broker_settings import BrokerConfig
from headrace.model.settings import SettingError

_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
EXTRA = "install headrace[security]"


@dataclass(frozen=True, slots=True)
class Contexts:
    """Of one listener, made from the files as they were at one time."""

    for_clients: ssl.SSLContext
    for_peers: ssl.SSLContext
    expires_at: datetime | None  # None where nothing is installed that can tell
    principal: Principal  # as who other brokers know this one where they ask for its certificate


def load(config: BrokerConfig, client_auth: str) -> Contexts:
    """Read the files of a listener, whose settings these are.  Raises SettingError, with a sentence."""
    if config["ssl.keystore.location"] is None:
        raise SettingError(
            "ssl.keystore.location is not set; TLS listeners need a file with the broker's key and certificate, and "
            "`headrace cert make certs` makes one to try, certs/broker.pem"
        )
    if client_auth != "none" and config["ssl.truststore.location"] is None:
        raise SettingError("ssl.client.auth needs ssl.truststore.location, the authorities of clients' certificates")
    for_clients = _for_clients(config, client_auth)
    expiries = [expiry for name in keystores(config) if (expiry := _expiry(Path(name))) is not None]
    return Contexts(for_clients, _for_peers(config), min(expiries, default=None), _own_principal(config))


def keystores(config: BrokerConfig) -> list[str]:
    """The files with keys and certificates; the first is for whoever asks for no host, or for one that none is for."""
    return [config["ssl.keystore.location"], *config["headrace.ssl.sni.keystore.locations"]]


def _for_clients(config: BrokerConfig, client_auth: str) -> ssl.SSLContext:
    context = _of_keystore(config, config["ssl.keystore.location"], client_auth)
    by_host: dict[str, ssl.SSLContext] = {}
    for location in config["headrace.ssl.sni.keystore.locations"]:
        other = _of_keystore(config, location, client_auth)
        by_host |= dict.fromkeys(_hosts(Path(location)), other)
    if by_host:

        def on_name(shaken: ssl.SSLObject, host: str | None, _: ssl.SSLContext) -> None:
            """Another certificate.  Clients' own are checked by the authorities of the context that is taken."""
            wanted = (host or "").lower()
            found = by_host.get(wanted) or by_host.get("*." + wanted.partition(".")[2])
            if found is not None:
                shaken.context = found

        context.sni_callback = on_name
    return context


def _of_keystore(config: BrokerConfig, location: str, client_auth: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    _prepare(context, config, location)
    if client_auth != "none":
        _load_authorities(context, config)
        context.verify_mode = _VERIFY[client_auth]
    return context


def _for_peers(config: BrokerConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config["ssl.endpoint.identification.algorithm"] == "https"
    _prepare(context, config, config["ssl.keystore.location"])
    if config["ssl.truststore.location"] is not None:
        _load_authorities(context, config)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _prepare(context: ssl.SSLContext, config: BrokerConfig, location: str) -> None:
    versions = [_VERSIONS[name] for name in config["ssl.enabled.protocols"]]
    if not versions:
        raise SettingError("ssl.enabled.protocols names no version of TLS")
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    name = "ssl.keystore.location" if location == config["ssl.keystore.location"] else "headrace.ssl.sni.keystore.locations"
    password = config["ssl.key.password"]
    try:
        # Without a password of ours, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(location, password=lambda: password or "")
        # A group that reads it is how certificates are often handed out; everybody is a mistake.
        require_private(Path(location), name, from_group=False)
    except SecretFileError as error:
        raise SettingError(str(error)) from None
    except (OSError, ValueError) as error:
        raise SettingError(f"{name}={location} cannot be used: {_cause(error)}") from None


def _load_authorities(context: ssl.SSLContext, config: BrokerConfig) -> None:
    location = config["ssl.truststore.location"]
    try:
        context.load_verify_locations(location)
    except (OSError, ValueError) as error:
        raise SettingError(f"ssl.truststore.location={location} cannot be used: {_cause(error)}") from None


def _cause(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        if error.reason is None:
            return "it has no private key, or no certificate, in the form PEM"
        reason = error.reason.lower().replace("_", " ")
        return "the key and the certificate do not belong together" if "mismatch" in reason else reason
    return getattr(error, "strerror", None) or str(error)


def _expiry(keystore: Path) -> datetime | None:
    """When the first of the chain's certificates expires."""
    try:
        from cryptography import x509
    except ImportError:
        return None
    try:
        return min(certificate.not_valid_after_utc for certificate in x509.load_pem_x509_certificates(keystore.read_bytes()))
    except (OSError, ValueError):
        return None


def _own_principal(config: BrokerConfig) -> Principal:
    """By the rules for those who come; ANONYMOUS where the certificate names nobody, or nothing is installed that can tell."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding
    except ImportError:
        return ANONYMOUS
    try:
        certificate = x509.load_pem_x509_certificates(Path(config["ssl.keystore.location"]).read_bytes())[0]
        return certificate_names(config["ssl.principal.mapping.rules"])(certificate.public_bytes(Encoding.DER))
    except (OSError, ValueError, SettingError):
        return ANONYMOUS


def _hosts(keystore: Path) -> list[str]:
    """The hosts that a certificate is for."""
    try:
        from cryptography import x509
    except ImportError:
        raise SettingError(f"headrace.ssl.sni.keystore.locations needs a library to read certificates: {EXTRA}") from None
    try:
        certificate = x509.load_pem_x509_certificates(keystore.read_bytes())[0]
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        raise SettingError(f"headrace.ssl.sni.keystore.locations={keystore}: its certificate names no host") from None
    return [name.lower() for name in names.get_values_for_type(x509.DNSName)]


def certificate_names(rules: str) -> Callable[[bytes | None], Principal]:
    """Who somebody is by the certificate shown.  The function raises ValueError when it is nobody's."""
    try:
        from headrace.security.authentication.distinguished_names import subject_of
        from headrace.security.authentication.principal_mapping import MappingError, PrincipalMapping
    except ImportError:
        raise SettingError(f"ssl.client.auth needs a library to read certificates' names: {EXTRA}") from None
    try:
        mapping = PrincipalMapping(rules)
    except MappingError as error:
        raise SettingError(f"ssl.principal.mapping.rules: {error}") from None

    def principal_of(certificate: bytes | None) -> Principal:
        if certificate is None:
            return ANONYMOUS
        subject = subject_of(certificate)
        name = mapping.name_of(subject)
        if name is None:
            raise ValueError(f"no rule of ssl.principal.mapping.rules takes {subject!r}")
        return user(name)

    return principal_of
