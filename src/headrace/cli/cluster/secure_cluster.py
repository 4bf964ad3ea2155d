"""What makes a cluster on this machine a secured one: an authority, a certificate for each process, users, rules, and profiles.

Clients come by SASL_SSL; brokers talk among themselves over a listener of their own, on which everybody shows a certificate.  By
such a one the first users are made, too, so that no broker ever has an open door.  etcd, which keeps the users' keys and the
rules, lets in brokers only: by certificates of an authority of its own, so that a certificate for a user opens nothing there.
"""

import json
import os
import secrets
import ssl
from pathlib import Path
from typing import Final

from headrace.cli.failure import Failure
from headrace.model.access.acls import AclRule, Operation, PatternType, Permission, ResourceType
from headrace.model.access.principals import user

LISTENER: Final = "BROKERS"
BROKER_NAME: Final = "headrace-broker"  # in all certificates of brokers, for hosts and for the rules alike
ETCD: Final = "etcd"
ADMIN, APPLICATION = "admin", "app"
PREFIX: Final = "app-"
RIGHTS: Final = {
    ResourceType.TOPIC: (Operation.READ, Operation.WRITE, Operation.CREATE),
    ResourceType.GROUP: (Operation.READ,),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE,),
}


class ClusterSecurity:
    """Under the directory of a cluster: `security` with the authority and certificates, and a profile for each user."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._folder = directory / "security"

    def profile(self, name: str) -> Path:
        return self._directory / f"{name}.toml"

    def settings(self, number: int, port: int, broker_port: int) -> dict[str, str]:
        """Of one broker, whose certificate is made where there is none."""
        authority, certificate = self._certificates(f"broker-{number}")
        etcd_authority, etcd_certificate = self._certificates(f"broker-{number}", ETCD)
        return {
            "headrace.metadata.ca": str(etcd_authority),
            "headrace.metadata.certificate": str(etcd_certificate),
            "listeners": f"SASL_SSL://127.0.0.1:{port},{LISTENER}://127.0.0.1:{broker_port}",
            "listener.security.protocol.map": f"SASL_SSL:SASL_SSL,{LISTENER}:SSL",
            "inter.broker.listener.name": LISTENER,
            "ssl.keystore.location": str(certificate),
            "ssl.truststore.location": str(authority),
            "ssl.client.auth": "required",
            "authorizer": "acl",
            "super.users": f"User:CN={BROKER_NAME};User:{ADMIN}",
        }

    def etcd_arguments(self) -> list[str]:
        """Of etcd: TLS, and who has no certificate of its authority is turned away."""
        authority, certificate = (str(file) for file in self._certificates(ETCD, ETCD))
        arguments = ["--client-cert-auth", "--cert-file", certificate, "--key-file", certificate, "--trusted-ca-file", authority]
        # There are no other members; all the more nobody may speak to it as if he were one.
        arguments += ["--peer-client-cert-auth", "--peer-cert-file", certificate, "--peer-key-file", certificate]
        return [*arguments, "--peer-trusted-ca-file", authority]

    def etcd_context(self) -> ssl.SSLContext:
        """To ask etcd how it is."""
        authority, certificate = self._certificates(ETCD, ETCD)
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certificate)
        return context

    def _certificates(self, name: str, folder: str = "") -> tuple[Path, Path]:
        """The authority's, and a process's own."""
        try:
            from headrace.host.certificates import DevelopmentAuthority

            self._folder.mkdir(parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            authority = DevelopmentAuthority(self._folder.absolute() / folder)
        except ImportError:
            raise Failure("this needs a library: pip install 'headrace[security]'.") from None
        certificate = authority.folder / f"{name}.pem"
        if not certificate.exists():
            authority.issue_broker([BROKER_NAME, "localhost", "127.0.0.1", "::1"], certificate.name)
        return authority.file, certificate

    def let_in(self, bootstrap: str, brokers: str) -> None:
        """Make users, rules and profiles, unless they are there; `brokers` are the addresses at which these talk."""
        missing = [name for name in (ADMIN, APPLICATION) if not self.profile(name).exists()]
        if not missing:
            return
        authority, certificate = self._certificates("broker-1")
        properties = {
            "bootstrap.servers": brokers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(certificate),
        }
        from headrace.client.admin.acls import RuleAdmin
        from headrace.client.admin.users import Users

        users = Users(properties)
        for name in missing:
            password = secrets.token_urlsafe(18)
            users.set_password(name, password)
            self._write_profile(name, bootstrap, password, authority)
        if APPLICATION in missing:
            RuleAdmin(properties).create(_rules())

    def _write_profile(self, name: str, bootstrap: str, password: str, authority: Path) -> None:
        keys = {"bootstrap": bootstrap, "username": name, "password": password, "ca_file": str(authority.absolute())}
        text = f"[profiles.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        descriptor = os.open(self.profile(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)


def _rules() -> list[AclRule]:
    """What the example application may do, with topics, groups and transactions of its prefix."""
    return [
        AclRule(
            permission=Permission.ALLOW,
            principal=user(APPLICATION),
            host="*",
            operation=operation,
            resource_type=kind,
            resource_name=PREFIX,
            pattern_type=PatternType.PREFIXED,
        )
        for kind, operations in RIGHTS.items()
        for operation in operations
    ]
