"""A cluster that is closed: brokers and clients sign in by SCRAM, and rules say who may do what.

What there is from the start is in the store before the first broker runs, as an operator would have put it there.
"""

import atexit
import hashlib
import shutil
import tempfile
from functools import cache
from pathlib import Path

from headrace.broker.sign_in.peer import PASSWORD_FILE, USER, PeerSignIn
from headrace.controller.access.entries import acl_key, encode_credential, encode_rule, scram_key
from headrace.controller.entries import Put
from headrace.model.access.acls import ANY_RESOURCE, AclRule, Operation, ResourceType
from headrace.model.access.principals import user
from headrace.model.access.scram import ITERATIONS_MIN, ScramCredential, ScramMechanism, credential_of, salted_password
from headrace.model.broker_settings import BrokerConfig

PROTOCOL = "SASL_PLAINTEXT"
MECHANISM = ScramMechanism.SHA_256
BROKER, ROOT, CLIENT = "broker", "root", "client"
# Who administers; the others have the rights of a client, and no more.
OPERATORS = ("admin", "operator", "mover", "recreator", "ruler")
RIGHTS = (
    (ResourceType.TOPIC, Operation.READ),
    (ResourceType.TOPIC, Operation.WRITE),
    (ResourceType.GROUP, Operation.READ),
    (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
)


def settings() -> dict[str, str]:
    """Of every broker."""
    return {
        **_signs_in_as(BROKER),
        "sasl.enabled.mechanisms": MECHANISM.title,
        "authorizer": "acl",
        "super.users": f"User:{BROKER};User:{ROOT}",
    }


def entries() -> list[Put]:
    """The users and the rules."""
    rules = [
        AclRule(principal=user(CLIENT), operation=operation, resource_type=kind, resource_name=ANY_RESOURCE)
        for kind, operation in RIGHTS
    ]
    users = [Put(scram_key(name, MECHANISM), encode_credential(_credential(name))) for name in (BROKER, ROOT, CLIENT)]
    return [*users, *(Put(acl_key(rule), encode_rule(rule)) for rule in rules)]


def sign_in_of(client: str) -> PeerSignIn:
    """How a client signs in."""
    return PeerSignIn(BrokerConfig(_signs_in_as(ROOT if client.startswith(OPERATORS) else CLIENT)))


def _signs_in_as(name: str) -> dict[str, str]:
    return {
        "sasl.mechanism.inter.broker.protocol": MECHANISM.title,
        USER: name,
        PASSWORD_FILE: str(_password_files() / name),
    }


@cache
def _credential(name: str) -> ScramCredential:
    salt = hashlib.sha256(name.encode()).digest()
    return credential_of(MECHANISM, salted_password(MECHANISM, _password(name), salt, ITERATIONS_MIN), salt, ITERATIONS_MIN)


def _password(name: str) -> str:
    return f"the secret of {name}"


@cache
def _password_files() -> Path:
    """Brokers read their password from a file: a real one, for all clusters of this process."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-simulation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in (BROKER, ROOT, CLIENT):
        (folder / name).write_text(_password(name))
        (folder / name).chmod(0o600)
    return folder
