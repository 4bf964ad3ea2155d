"""TLS for the connections that are our own and not librdkafka's, from librdkafka's properties: one configuration serves both."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final

from headrace.client.errors import BrokerTimeout, HeadraceError, InvalidArgument, SecurityFailed

ENCRYPTED: Final = ("ssl", "sasl_ssl")
# What librdkafka can do and this cannot.
FOREIGN: Final = (
    "ssl.keystore.location",
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.engine.location",
    "ssl_key",
    "ssl_certificate",
)
_OTHER_HOST: Final = (62, 64)  # OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH
_EXPIRED: Final = 10
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")


class NoAnswer(BrokerTimeout):
    """Somebody accepted the connection, and says nothing."""


class HungUp(BrokerTimeout):
    """Somebody accepted the connection, and closed it when TLS was to begin."""


def protocol_of(config: Mapping[str, Any]) -> str:
    return str(config.get("security.protocol", "plaintext")).lower()


def is_encrypted(config: Mapping[str, Any]) -> bool:
    return protocol_of(config) in ENCRYPTED


def context_of(config: Mapping[str, Any]) -> ssl.SSLContext | None:
    """How TLS is spoken with these properties; None where it is not.  Raises InvalidArgument when a file cannot be used."""
    if not is_encrypted(config):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = str(config.get("ssl.endpoint.identification.algorithm", "https")).lower() == "https"
    if str(config.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _trust(context, config)
    _show(context, config)
    return context


def _trust(context: ssl.SSLContext, config: Mapping[str, Any]) -> None:
    location, text = config.get("ssl.ca.location"), config.get("ssl.ca.pem")
    if not location and not text:
        context.load_default_certs()
        return
    is_folder = location is not None and os.path.isdir(location)
    try:
        context.load_verify_locations(cafile=None if is_folder else location, capath=location if is_folder else None, cadata=text)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"ssl.ca.location={location} cannot be used: {_cause(error)}") from None


def _show(context: ssl.SSLContext, config: Mapping[str, Any]) -> None:
    certificate, key = config.get("ssl.certificate.location"), config.get("ssl.key.location")
    if not certificate:
        return
    password = config.get("ssl.key.password") or ""
    try:
        # Without a password of ours, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password=lambda: str(password))
    except (OSError, ValueError) as error:
        files = f"ssl.certificate.location={certificate}" + (f" with ssl.key.location={key}" if key else "")
        raise InvalidArgument(f"{files} cannot be used: {_cause(error)}") from None


def _cause(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "there is no certificate or no key in PEM").lower().replace("_", " ")
        return "the key and the certificate do not belong together" if "mismatch" in reason else reason
    return getattr(error, "strerror", None) or str(error)


def encrypted(plain: socket.socket, context: ssl.SSLContext, host: str, address: str) -> ssl.SSLSocket:
    """The connection with TLS on it.  Raises SecurityFailed with the reason, or BrokerTimeout where that may pass."""
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLError as error:
        raise tls_failure(error, address) from None
    except TimeoutError:
        raise NoAnswer(f"{address} accepts connections and does not begin TLS") from None
    except (ConnectionResetError, BrokenPipeError):
        raise HungUp(f"{address} {_HUNG_UP}") from None


_HUNG_UP: Final = (
    "closed the connection when TLS was to begin: there is no TLS listener (security_protocol), or one that takes no such client"
)


def speaks_no_tls(address: str) -> str:
    return f"{address} does not speak TLS; use a TLS listener, or security_protocol PLAINTEXT or SASL_PLAINTEXT"


def tls_failure(error: ssl.SSLError, address: str) -> HeadraceError:
    """What went wrong, and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return SecurityFailed(_distrust(error, address))
    reason = error.reason or ""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or "UNEXPECTED_EOF" in reason:
        return HungUp(f"{address} {_HUNG_UP}")
    if reason in _NOT_TLS:
        return SecurityFailed(speaks_no_tls(address))
    if "CERTIFICATE_REQUIRED" in reason or reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
        return SecurityFailed(
            f"{address} wants a certificate of its clients; give one with certificate_file (ssl.certificate.location)"
        )
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return SecurityFailed(f"{address} does not accept this client's certificate ({reason.lower().replace('_', ' ')})")
    return SecurityFailed(f"TLS with {address} failed: {reason.lower().replace('_', ' ') or error}")


def _distrust(error: ssl.SSLCertVerificationError, address: str) -> str:
    if error.verify_code in _OTHER_HOST:
        return (
            f"the certificate of {address} is another host's ({error.verify_message.rstrip('.')}); use a name that is in it,"
            " or give the broker a certificate for this one"
        )
    if error.verify_code == _EXPIRED:
        return f"the certificate of {address} has expired; the broker needs a new one"
    return (
        f"the certificate of {address} is not signed by an authority that this client trusts ({error.verify_message}); give the"
        " authority's certificate with ca_file (ssl.ca.location)"
    )
