"""Who may do what, and by which rule."""

from __future__ import annotations

from typing import Any, Final

from headrace.client.admin.acls import RuleAdmin
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter
from headrace.gateway.serving.problems import bad_request
from headrace.model.access.acls import CLUSTER_NAME, AclFilter, Operation, ResourceType
from headrace.model.access.principals import Principal, PrincipalError, Subject, parse_principal, parse_super_users, user
from headrace.security.authorization.authorizer import Authorizer
from headrace.security.authorization.index import AclIndex

operations = Operations("console security")
WHO: Final = Parameter("who", "A user's name, or Type:name.", required=True)
KINDS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transaction": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
}
KIND: Final = Parameter("kind", "Of what.", "choice", default="topic", choices=tuple(KINDS))
NAME: Final = Parameter("name", "Its name.", default=CLUSTER_NAME)
ASKED: Final = {
    "topic": ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "group": ("READ", "DESCRIBE", "DELETE"),
    "transaction": ("WRITE", "DESCRIBE"),
    "cluster": ("CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"),
}


@operations.get("/console/api/access", "What somebody may do, and why", query=(WHO, KIND, NAME), listed=False)
async def explain(call: Call) -> dict[str, Any]:
    """Decided here by the rules that the caller may see, as the brokers decide it."""
    kind, name, who = call.query["kind"], call.query["name"], _principal(call.query["who"])

    def decide(admin: RuleAdmin) -> dict[str, Any]:
        rules = AclIndex(admin.find(AclFilter())) if (settings := _deciding(admin)) else AclIndex([])
        authorizers = [_authorizer(rules, each) for each in settings]
        subject = Subject(who, [], "")
        return {
            "authorizer": bool(authorizers),
            "decisions": [_decision(authorizers, subject, operation, kind, name) for operation in ASKED[kind] if authorizers],
        }

    return {"who": str(who), "kind": kind, "name": name, **await call.caller.rules(decide)}


def _principal(text: str) -> Principal:
    try:
        return parse_principal(text) if ":" in text else user(text)
    except (PrincipalError, ValueError):
        raise bad_request("The principal must be a user's name, or Type:name.", "Write, say, ann.") from None


def _deciding(admin: RuleAdmin) -> list[dict[str, str]]:
    """The settings of the brokers that decide by rules; those without an authorizer let everybody do everything."""
    every = admin.broker_settings().values()
    return [each for each in every if each.get("authorizer", "acl") != "none" or each.get("authorizer.class.name")]


def _authorizer(rules: AclIndex, settings: dict[str, str]) -> Authorizer:
    everyone = settings.get("allow.everyone.if.no.acl.found") == "true"
    return Authorizer(rules, parse_super_users(settings.get("super.users", "")), allow_everyone_if_no_acl_found=everyone)


def _decision(authorizers: list[Authorizer], subject: Subject, operation: str, kind: str, name: str) -> dict[str, Any]:
    found, *others = [each.decide(subject, Operation[operation], KINDS[kind], name) for each in authorizers]
    why = f"{found.reason.value}: {found.rule}" if found.rule else found.reason.value
    if any(other.allowed != found.allowed for other in others):
        why = f"{why}; other brokers have other settings, and decide otherwise"
    return {"operation": operation.lower(), "allowed": found.allowed, "why": why}
