"""Apache Kafka itself, closed as our broker is (`tests/compat/security/stage.py`): its tools end there as the table says."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headrace.host.certificates import DevelopmentAuthority
from tests.compat.security.stage import USERS, Stage, let_ann_in
from tests.support.issuer import AUDIENCE, ISSUER, Issuer
from tests.support.waiting import until

LISTENERS = ("SASL_SSL", "SASL_PLAINTEXT", "SSL")
HEAP = "-Xmx512m"
START_S_MAX = 300.0
MODULES = "org.apache.kafka.common.security"
TOKENS = f"{MODULES}.oauthbearer"


@contextmanager
def closed_kafka(class_path: str, folder: Path) -> Iterator[Stage]:
    """One node, with the users, authorities and rules of the stage."""
    authority, issuer = DevelopmentAuthority(folder), Issuer(folder)
    authority.issue_client("ann")
    ports = free_ports(len(LISTENERS) + 1)
    bootstraps = {name: f"127.0.0.1:{port}" for name, port in zip(LISTENERS, ports, strict=False)}
    file = folder / "server.properties"
    file.write_text(properties(folder, authority, issuer, bootstraps, ports[-1]))
    java = ["java", HEAP, f"-D{TOKENS.replace('common.security', 'sasl')}.allowed.urls={issuer.file.as_uri()}", "-cp", class_path]
    scram = [
        word
        for name, password in USERS.items()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for word in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
    ]
    formatting = [
        *java,
        "kafka.tools.StorageTool",
        "format",
        "--config",
        str(file),
        "--cluster-id",
        "aaaaaaaaaaaaaaaaaaaaaA",
        *scram,
    ]
    subprocess.run(formatting, check=True, stdout=subprocess.DEVNULL)
    with (
        (folder / "kafka.log").open("w") as log,
        subprocess.Popen([*java, "kafka.Kafka", str(file)], stdout=log, stderr=log) as kafka,
    ):
        try:
            wait_for(ports[0], kafka)
            stage = Stage(bootstraps, folder, issuer)
            let_ann_in(stage)
            yield stage
        finally:
            kafka.terminate()


def properties(folder: Path, authority: DevelopmentAuthority, issuer: Issuer, bootstraps: dict[str, str], controller: int) -> str:
    passwords = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    addresses = ",".join(f"{name}://{address}" for name, address in bootstraps.items())
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT," + ",".join(f"{name}:{name}" for name in LISTENERS),
        "inter.broker.listener.name": "SSL",
        "log.dirs": str(folder / "kafka"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue_broker(["localhost", "127.0.0.1"])),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.file.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Itself: by its certificate, and at the listener of controllers by no name.
        "super.users": "User:root;User:localhost;User:ANONYMOUS",
    }
    for name in ("sasl_ssl", "sasl_plaintext"):
        at = f"listener.name.{name}"
        settings |= {
            f"{at}.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {passwords};",
            f"{at}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            f"{at}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            f"{at}.oauthbearer.sasl.jaas.config": f"{TOKENS}.OAuthBearerLoginModule required;",
            f"{at}.oauthbearer.sasl.server.callback.handler.class": f"{TOKENS}.OAuthBearerValidatorCallbackHandler",
        }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in taken]


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    def listens() -> bool:
        if process.poll() is not None:
            raise SystemExit("Apache Kafka did not start; its log is kafka.log")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    until(listens, "Apache Kafka listens", START_S_MAX, every_s=0.2)
