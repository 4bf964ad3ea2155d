"""What makes a test's broker speak TLS and know users."""

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

from headrace.broker.app import Broker
from headrace.controller.access.scram_credentials import Upsertion, alter_scram_credentials
from headrace.controller.entries import ConditionalWrite
from headrace.controller.image import ClusterImage
from headrace.host.certificates import AUTHORITY, BROKER, DevelopmentAuthority
from headrace.model.access.scram import ITERATIONS_MIN, ScramMechanism, salted_password
from headrace.model.errors import RequestError

SALT = b"a salt for tests"


@cache
def make_certificates() -> Path:
    """A folder with an authority and a broker's certificate, for all brokers of this process and gone with it."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-certificates-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    DevelopmentAuthority(folder).issue_broker(["localhost", "127.0.0.1"])
    return folder


def write_profile(keys: Mapping[str, str]) -> Path:
    """A file with one profile, for its owner only and gone with this process."""
    descriptor, name = tempfile.mkstemp(prefix="headrace-profile-", suffix=".toml")
    with os.fdopen(descriptor, "w") as file:
        file.write("[profiles.test]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)


def secure_settings(certificates: Path | None, *, with_users: bool) -> dict[str, str]:
    settings = {}
    if certificates is not None:
        settings["ssl.keystore.location"] = str(certificates / BROKER)
        settings["ssl.truststore.location"] = str(certificates / AUTHORITY)
    if with_users and certificates is not None:
        settings["sasl.enabled.mechanisms"] = "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN"
    return settings


def secure_cluster_settings(certificates: Path, address: str, secure: str, private: str) -> dict[str, str]:
    """For a broker at three addresses: onlookers come in plain text, clients sign in by TLS, and brokers show certificates."""
    return {
        **secure_settings(certificates, with_users=True),
        "listeners": f"WATCH://{address},SECURE://{secure},PRIVATE://{private}",
        "listener.security.protocol.map": "WATCH:PLAINTEXT,SECURE:SASL_SSL,PRIVATE:SSL",
        "inter.broker.listener.name": "PRIVATE",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=.*$/broker/",
        "authorizer": "acl",
        "super.users": "User:broker;User:ANONYMOUS",
    }


def checked_users(users: Mapping[str, str]) -> dict[str, str]:
    """Names with their passwords, or a TypeError that says how they are given."""
    if not isinstance(users, Mapping) or not all(isinstance(each, str) for pair in users.items() for each in pair):
        raise TypeError(f"users={users!r} is not names with passwords; give them as users={{'ann': 'secret'}}")
    return dict(users)


async def add_users(broker: Broker, users: Mapping[str, str]) -> None:
    """Before anybody signs in."""
    for name, password in users.items():
        await broker.cluster.submit(partial(_writes, name, password))


def _writes(name: str, password: str, image: ClusterImage) -> list[ConditionalWrite]:
    upsertions = [
        Upsertion(
            user=name,
            mechanism=mechanism,
            iterations=ITERATIONS_MIN,
            salt=SALT,
            salted_password=salted_password(mechanism, password, SALT, ITERATIONS_MIN),
        )
        for mechanism in ScramMechanism
    ]
    write = alter_scram_credentials(image, upsertions)[name]
    if isinstance(write, RequestError):
        raise write
    return [write]
