"""How rules and credentials are kept in the metadata store.

acls/<digest>              one rule; the key is the digest of the rule, so that a rule that is made twice is there once
scram/<user>/<mechanism>   what is kept of a user's password; the name is percent-encoded
scram-seed                 what credentials of users that there are not are made up from, the same on all brokers
"""

import hashlib
from base64 import b64decode, b64encode
from typing import Any, Final
from urllib.parse import quote, unquote

import orjson

from headrace.model.access.acls import AclRule, Operation, PatternType, Permission, ResourceType
from headrace.model.access.principals import Principal
from headrace.model.access.scram import ScramCredential, ScramMechanism

ACLS: Final = "acls/"
SCRAM_CREDENTIALS: Final = "scram/"
SCRAM_SEED: Final = "scram-seed"


def acl_key(rule: AclRule) -> str:
    return ACLS + hashlib.sha256(encode_rule(rule)).hexdigest()[:32]


def encode_rule(rule: AclRule) -> bytes:
    return orjson.dumps(
        {
            "permission": rule.permission.name,
            "principal_kind": rule.principal.kind,
            "principal": rule.principal.name,
            "host": rule.host,
            "operation": rule.operation.name,
            "resource_type": rule.resource_type.name,
            "resource_name": rule.resource_name,
            "pattern_type": rule.pattern_type.name,
        }
    )


def decode_rule(value: bytes) -> AclRule:
    data: dict[str, Any] = orjson.loads(value)
    return AclRule(
        permission=Permission[data["permission"]],
        principal=Principal(data["principal_kind"], data["principal"]),
        host=data["host"],
        operation=Operation[data["operation"]],
        resource_type=ResourceType[data["resource_type"]],
        resource_name=data["resource_name"],
        pattern_type=PatternType[data["pattern_type"]],
    )


def scram_key(user: str, mechanism: ScramMechanism) -> str:
    return f"{SCRAM_CREDENTIALS}{quote(user, safe='')}/{mechanism.title}"


def parse_scram_key(key: str) -> tuple[str, ScramMechanism]:
    user, _, title = key[len(SCRAM_CREDENTIALS) :].partition("/")
    return unquote(user), next(mechanism for mechanism in ScramMechanism if mechanism.title == title)


def encode_credential(credential: ScramCredential) -> bytes:
    return orjson.dumps(
        {
            "salt": b64encode(credential.salt).decode(),
            "iterations": credential.iterations,
            "stored_key": b64encode(credential.stored_key).decode(),
            "server_key": b64encode(credential.server_key).decode(),
        }
    )


def decode_credential(value: bytes) -> ScramCredential:
    data: dict[str, Any] = orjson.loads(value)
    return ScramCredential(
        salt=b64decode(data["salt"]),
        iterations=data["iterations"],
        stored_key=b64decode(data["stored_key"]),
        server_key=b64decode(data["server_key"]),
    )


def encode_seed(seed: bytes) -> bytes:
    return orjson.dumps({"seed": b64encode(seed).decode()})


def decode_seed(value: bytes) -> bytes:
    return b64decode(orjson.loads(value)["seed"])
