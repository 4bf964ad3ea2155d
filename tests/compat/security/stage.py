"""A closed broker for other people's clients: every mechanism, certificates, and rules that let ann at what begins with her name.

Each way leads to the same principal, `User:ann`, who may do nothing but what her rules allow: what she wrote and read, she did
under her own name.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType, ResourceType

from headrace.host.certificates import AUTHORITY, DevelopmentAuthority
from headrace.testing import Broker
from tests.support.issuer import AUDIENCE, ISSUER, Issuer

USERS = {"ann": "ann's secret", "root": "root's secret"}
MINE = "ann-"
OTHERS = "bob-orders"
CERTIFICATE = "certificate"
TOKEN = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class Way:
    """By which listener, and how one says who one is."""

    listener: str
    mechanism: str

    def __str__(self) -> str:
        return f"{self.listener}-{self.mechanism}"

    @property
    def has_password(self) -> bool:
        return self.mechanism not in (CERTIFICATE, TOKEN)


WAYS = (
    Way("SASL_SSL", "PLAIN"),
    Way("SASL_SSL", "SCRAM-SHA-256"),
    Way("SASL_SSL", "SCRAM-SHA-512"),
    Way("SASL_SSL", TOKEN),
    Way("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    Way("SASL_PLAINTEXT", "SCRAM-SHA-512"),
    Way("SASL_PLAINTEXT", TOKEN),
    Way("SSL", CERTIFICATE),
)
WITH_PASSWORD = tuple(way for way in WAYS if way.has_password)


@dataclass(frozen=True, slots=True)
class Stage:
    """A running broker, and what its clients need."""

    bootstraps: Mapping[str, str]
    folder: Path
    issuer: Issuer

    @property
    def authority(self) -> str:
        return str(self.folder / AUTHORITY)

    @property
    def certificate(self) -> str:
        """A file with ann's key and her certificate."""
        return str(self.folder / "ann.pem")

    def bootstrap(self, way: Way) -> str:
        return self.bootstraps[way.listener]

    def librdkafka(self, way: Way, user: str = "ann", password: str | None = None) -> dict[str, str]:
        """What librdkafka needs; a token comes by a callback."""
        config = {"bootstrap.servers": self.bootstrap(way), "security.protocol": way.listener, "ssl.ca.location": self.authority}
        if way.mechanism == CERTIFICATE:
            return config | {"ssl.certificate.location": self.certificate, "ssl.key.location": self.certificate}
        config["sasl.mechanism"] = way.mechanism
        if way.has_password:
            config |= {"sasl.username": user, "sasl.password": password or USERS[user]}
        return config


@contextmanager
def secured(folder: Path) -> Iterator[Stage]:
    authority, issuer = DevelopmentAuthority(folder), Issuer(folder)
    authority.issue_client("ann")
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("SASL_SSL", "SASL_PLAINTEXT", "SSL")),
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.location": authority.issue_broker(["localhost", "127.0.0.1"]),
        "ssl.truststore.location": authority.file,
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{issuer.file}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connection.failed.authentication.delay.ms": 1,
        "authorizer": "acl",
        "super.users": "User:root",
    }
    with Broker(settings=settings, users=USERS) as broker:
        stage = Stage(broker.bootstraps, folder, issuer)
        let_ann_in(stage)
        yield stage


def let_ann_in(stage: Stage) -> None:
    admin = AdminClient(stage.librdkafka(Way("SASL_SSL", "SCRAM-SHA-512"), "root"))
    wanted = [
        (ResourceType.TOPIC, AclOperation.CREATE),
        (ResourceType.TOPIC, AclOperation.WRITE),
        (ResourceType.TOPIC, AclOperation.READ),
        (ResourceType.GROUP, AclOperation.READ),
    ]
    rules = [
        AclBinding(kind, MINE, ResourcePatternType.PREFIXED, "User:ann", "*", operation, AclPermissionType.ALLOW)
        for kind, operation in wanted
    ]
    for made in admin.create_acls(rules).values():
        made.result(20)
