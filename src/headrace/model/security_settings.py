"""The settings of TLS, SASL and rules, in Kafka's names and for files in PEM, and those of the audit trail."""

from headrace.model.kafka_settings import LISTENER_PREFIX
from headrace.model.settings import Kind
from headrace.model.settings import fixed as _fixed

# Kafka's authorizers of rules, those of today and of older versions.
KAFKA_AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)


TLS_SETTINGS = (
    _fixed("ssl.keystore.type", Kind.STRING, "PEM", "The format of ssl.keystore.location.", choices=("PEM",)),
    _fixed(
        "ssl.keystore.location",
        Kind.STRING,
        None,
        "The file with the broker's private key and its certificate with the chain. A file that changes is taken up for new"
        " connections within seconds.",
    ),
    _fixed(
        "headrace.ssl.sni.keystore.locations",
        Kind.LIST,
        (),
        "More files of that kind, each for the hosts in its certificate: a client that asks for one of them (SNI) is shown that"
        " one.",
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

SASL_SETTINGS = (
    _fixed(
        "sasl.enabled.mechanisms",
        Kind.LIST,
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        "The mechanisms offered at SASL listeners.",
        choices=("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"),
    ),
    _fixed(
        "headrace.sasl.plain.without.tls",
        Kind.BOOLEAN,
        False,
        "Whether PLAIN is offered at SASL_PLAINTEXT listeners, too, where everybody on the way can read the passwords.",
    ),
    _fixed(
        "sasl.server.max.receive.size",
        Kind.INT,
        524_288,
        "The largest request accepted before authentication.",
        minimum=1,
    ),
    _fixed(
        "connections.max.reauth.ms",
        Kind.LONG,
        0,
        "How long somebody is signed in; who does not sign in again by then is cut off at the next request. 0: for as long as the"
        " connection, or the token, lasts.",
        minimum=0,
    ),
    _fixed(
        "connection.failed.authentication.delay.ms",
        Kind.INT,
        100,
        "How long the reply to a failed sign-in waits; longer, up to 5 s, for an address that fails often.",
        minimum=0,
        maximum=5000,
    ),
    _fixed(
        "sasl.mechanism.inter.broker.protocol",
        Kind.STRING,
        "SCRAM-SHA-512",
        "How a broker signs in at others, where inter.broker.listener.name is a SASL listener.",
        choices=("SCRAM-SHA-256", "SCRAM-SHA-512"),
    ),
    _fixed("headrace.sasl.inter.broker.user", Kind.STRING, None, "The user name with which a broker signs in to other brokers."),
    _fixed(
        "headrace.sasl.inter.broker.password.file",
        Kind.STRING,
        None,
        "The file with that user's password in its first line, which only the broker may read.",
    ),
    _fixed(
        "sasl.oauthbearer.jwks.endpoint.url",
        Kind.STRING,
        None,
        "Where the keys that sign tokens are published: a JWKS document at https://… or file:///…",
    ),
    _fixed(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        Kind.LONG,
        3_600_000,
        "How often the keys are fetched; and at once, but not more than every 10 s, for a token that names an unknown one.",
        minimum=100,
    ),
    _fixed("sasl.oauthbearer.expected.issuer", Kind.STRING, None, "The issuer whose tokens are accepted: the claim `iss`."),
    _fixed(
        "sasl.oauthbearer.expected.audience", Kind.LIST, (), "The accepted audiences: the claim `aud` must hold one of these."
    ),
    _fixed("sasl.oauthbearer.sub.claim.name", Kind.STRING, "sub", "The claim that holds the user name."),
    _fixed(
        "sasl.oauthbearer.clock.skew.seconds", Kind.INT, 30, "How far the issuer's clock may differ from the broker's.", minimum=0
    ),
    _fixed("sasl.oauthbearer.scope.claim.name", Kind.STRING, "scope", "The claim with a token's scopes."),
    _fixed(
        "headrace.sasl.oauthbearer.required.scopes",
        Kind.LIST,
        (),
        "The scopes that a token has to have, all of them; one without is told insufficient_scope.",
    ),
    _fixed(
        "headrace.sasl.oauthbearer.groups.claim.name",
        Kind.STRING,
        None,
        "The claim that lists the user's groups, for rules about `Group:NAME`.",
    ),
)

ACCESS_SETTINGS = (
    _fixed(
        "authorizer",
        Kind.STRING,
        "none",
        "Whether rules say who may do what: `acl` refuses all that no rule allows, `none` lets everybody do everything.",
        choices=("none", "acl"),
    ),
    _fixed(
        "authorizer.class.name",
        Kind.CLASS,
        "",
        "Kafka's name for the same: the class of its authorizer of rules means `authorizer=acl`.",
        choices=("", *KAFKA_AUTHORIZERS),
    ),
    _fixed(
        "super.users",
        Kind.STRING,
        "",
        "Who may do everything, whatever the rules say: principals such as `User:ann;Group:admins`, between semicolons. The"
        " principals of the brokers belong here.",
    ),
    _fixed(
        "allow.everyone.if.no.acl.found",
        Kind.BOOLEAN,
        False,
        "Whether everyone may access a resource that no rule mentions.",
    ),
)

# What a listener may have of its own, as listener.name.NAME.SETTING.
OF_ONE_LISTENER = (
    *(setting.name for setting in TLS_SETTINGS),
    "sasl.enabled.mechanisms",
    "headrace.sasl.plain.without.tls",
    "sasl.server.max.receive.size",
    "connections.max.reauth.ms",
)
# Of these, what a running broker takes, as Kafka does.  A password does not belong into the metadata.
OF_ONE_LISTENER_AT_RUN_TIME = ("ssl.keystore.location", "ssl.truststore.location")


def listener_of(name: str) -> str | None:
    """The listener that a setting is for alone; None where it is for all, or is none that a listener has."""
    for own in OF_ONE_LISTENER if name.startswith(LISTENER_PREFIX) else ():
        if name.endswith(f".{own}"):
            return name.removeprefix(LISTENER_PREFIX).removesuffix(own)[:-1].upper()
    return None


_DAY_MS = 86_400_000

AUDIT_SETTINGS = (
    _fixed(
        "headrace.audit",
        Kind.STRING,
        "auto",
        "Whether administrative acts, denials and failed sign-ins are recorded in the topic `__audit`: `on`, `off`, or `auto`,"
        " which is on where there is an authorizer.",
        choices=("auto", "on", "off"),
    ),
    _fixed(
        "headrace.audit.when.unavailable",
        Kind.STRING,
        "refuse",
        "What becomes of administrative acts while `__audit` cannot be written: `refuse` them, or `allow` and record them later.",
        choices=("refuse", "allow"),
    ),
    _fixed(
        "headrace.audit.timeout.ms",
        Kind.INT,
        15_000,
        "How long an administrative request waits for its audit record to be written.",
        minimum=1,
    ),
    _fixed(
        "headrace.audit.topic.replication.factor",
        Kind.SHORT,
        3,
        "How many replicas `__audit` gets when it is made; no more than there are brokers.",
        minimum=1,
    ),
    _fixed(
        "headrace.audit.topic.retention.ms",
        Kind.LONG,
        90 * _DAY_MS,
        "How long `__audit` keeps its records, from when it is made; -1 is for ever.",
        minimum=-1,
    ),
    _fixed(
        "headrace.audit.file",
        Kind.STRING,
        None,
        "A file to which every event is appended, too, as a line of JSON. One that is moved away is made anew.",
    ),
    _fixed(
        "headrace.audit.syslog",
        Kind.STRING,
        None,
        "A syslog that gets every event, too: the path of a socket such as /dev/log, udp://HOST:PORT or tcp://HOST:PORT.",
    ),
)
