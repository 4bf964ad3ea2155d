"""The settings of TLS: Kafka's names, for files in PEM."""

from typing import Any

from headrace.model.settings import Kind, Setting, Value


def _fixed(name: str, kind: Kind, default: Value, doc: str, **limits: Any) -> Setting:
    return Setting(name=name, kind=kind, default=default, doc=doc, **limits)


TLS_SETTINGS = (
    _fixed("ssl.keystore.type", Kind.STRING, "PEM", "The format of ssl.keystore.location.", choices=("PEM",)),
    _fixed(
        "ssl.keystore.location",
        Kind.STRING,
        None,
        "The file with the broker's private key and its certificate with the chain. A file that changes is taken up for new"
        " connections within seconds.",
    ),
    _fixed("ssl.key.password", Kind.PASSWORD, None, "The password of the private key, if it is encrypted."),
    _fixed("ssl.truststore.type", Kind.STRING, "PEM", "The format of ssl.truststore.location.", choices=("PEM",)),
    _fixed(
        "ssl.truststore.location",
        Kind.STRING,
        None,
        "The file with the authorities whose certificates are accepted, of clients and of other brokers. A file that changes is"
        " taken up for new connections within seconds.",
    ),
    _fixed(
        "ssl.client.auth",
        Kind.STRING,
        "none",
        "Whether clients of SSL listeners show a certificate: `required`, `requested` (who shows none is ANONYMOUS), or `none`.",
        choices=("required", "requested", "none"),
    ),
    _fixed(
        "ssl.enabled.protocols",
        Kind.LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken.",
        choices=("TLSv1.2", "TLSv1.3"),
    ),
    _fixed(
        "ssl.endpoint.identification.algorithm",
        Kind.STRING,
        "https",
        "Whether a broker that connects to another checks that its certificate is for the host it connects to; an empty text"
        " checks only who signed it.",
        choices=("https", ""),
    ),
    _fixed(
        "ssl.principal.mapping.rules",
        Kind.STRING,
        "DEFAULT",
        "From the name in a client's certificate to a user's: RULE:pattern/replacement/[LU], or DEFAULT for the name itself;"
        " the first that matches counts.",
    ),
)
