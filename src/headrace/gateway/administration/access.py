"""Who may do what, who may sign in, and how much: ACLs, users and quotas."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Annotated, Any, Literal

from headrace.client.admin.wire_admin import raise_for
from headrace.client.errors import InvalidArgument
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations, Parameter
from headrace.gateway.api.paging import PAGE, page
from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import bad_request, not_found
from headrace.model.access.acls import AclFilter, AclRule, Operation, PatternType, Permission, ResourceType
from headrace.model.access.principals import parse_principal
from headrace.model.errors import ErrorCode
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from headrace.wire.messages.describe_acls import DescribeAclsRequest
from headrace.wire.messages.describe_client_quotas import DescribeClientQuotasRequest

operations = Operations("access")

RESOURCES = tuple(each.name.lower() for each in ResourceType if each.name not in ("UNKNOWN", "ANY"))
# Those that librdkafka knows, which carries the rules.
OPERATIONS = tuple(each.name.lower() for each in Operation if Operation.ANY < each <= Operation.IDEMPOTENT_WRITE)
PATTERNS = ("literal", "prefixed")


@dataclass(frozen=True, slots=True)
class Acl:
    """A rule: somebody may, or may not, do something with something."""

    permission: Annotated[Literal["allow", "deny"], described("Whether it is allowed.", example="allow")]
    principal: Annotated[str, described("Whom it is about.", minLength=6, maxLength=512, example="User:ann")]
    operation: Annotated[str, described("What.", enum=list(OPERATIONS), example="read")]
    resource_type: Annotated[str, described("With what kind of thing.", enum=list(RESOURCES), example="topic")]
    resource_name: Annotated[str, described("Its name, or * for all.", minLength=1, maxLength=512, example="orders")]
    pattern: Annotated[Literal["literal", "prefixed"], described("Whether the name is whole, or a beginning.")] = "literal"
    host: Annotated[str, described("From where; * is anywhere.", minLength=1, maxLength=256)] = "*"


@dataclass(frozen=True, slots=True)
class Acls:
    """Rules."""

    acls: list[Acl]


@dataclass(frozen=True, slots=True)
class AclPage:
    """Some rules, and where the next page begins."""

    acls: list[Acl]
    next: str | None


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who can sign in, by which mechanisms."""

    name: str
    mechanisms: Annotated[dict[str, int], described("With the iterations of each.")]


@dataclass(frozen=True, slots=True)
class UserPage:
    """Some users, and where the next page begins."""

    users: list[User]
    next: str | None


@dataclass(frozen=True, slots=True)
class Password:
    """A password, which is never shown."""

    password: Annotated[str, described("The new password.", minLength=1, maxLength=1024)]


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of somebody or something.  A name of null is the default for all without a limit of their own."""

    entity: Annotated[
        dict[str, str | None], described("`user`, `client-id`, `ip` or `topic`, with names.", example={"user": "ann"})
    ]
    limits: Annotated[dict[str, float], described("Limits by name.", example={"producer_byte_rate": 1_000_000})]


@dataclass(frozen=True, slots=True)
class QuotaPage:
    """Some limits, and where the next page begins."""

    quotas: list[Quota]
    next: str | None


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """Limits to set; null removes one."""

    entity: Annotated[
        dict[str, str | None], described("`user`, `client-id`, `ip` or `topic`, with names.", example={"user": "ann"})
    ]
    limits: Annotated[dict[str, float | None], described("Limits by name.", example={"producer_byte_rate": 1_000_000})]


def _choice(name: str, choices: tuple[str, ...]) -> Parameter:
    return Parameter(name, f"Only those with this {name.replace('_', ' ')}.", "choice", choices=choices)


FILTERS = (
    _choice("permission", ("allow", "deny")),
    Parameter("principal", "Only those about this principal, such as User:ann."),
    _choice("operation", OPERATIONS),
    _choice("resource_type", RESOURCES),
    Parameter("resource_name", "Only those about this name."),
    _choice("pattern", (*PATTERNS, "any", "match")),
    Parameter("host", "Only those from this host."),
)


def _filter(query: dict[str, Any]) -> AclFilter:
    return AclFilter(
        resource_type=ResourceType[(query["resource_type"] or "any").upper()],
        resource_name=query["resource_name"],
        pattern_type=PatternType[(query["pattern"] or "any").upper()],
        principal=query["principal"],
        host=query["host"],
        operation=Operation[(query["operation"] or "any").upper()],
        permission=Permission[(query["permission"] or "any").upper()],
    )


def _acl(rule: AclRule) -> Acl:
    return Acl(
        "allow" if rule.permission is Permission.ALLOW else "deny",
        str(rule.principal),
        rule.operation.name.lower(),
        rule.resource_type.name.lower(),
        rule.resource_name,
        "prefixed" if rule.pattern_type is PatternType.PREFIXED else "literal",
        rule.host,
    )


def _rule(acl: Acl) -> AclRule:
    if acl.operation not in OPERATIONS:
        raise bad_request(f"operation must be one of {', '.join(OPERATIONS)}.")
    if acl.resource_type not in RESOURCES:
        raise bad_request(f"resource_type must be one of {', '.join(RESOURCES)}.")
    try:
        principal = parse_principal(acl.principal)
    except ValueError:
        raise bad_request("principal must be Type:name, such as User:ann.") from None
    return AclRule(
        permission=Permission[acl.permission.upper()],
        principal=principal,
        host=acl.host,
        operation=Operation[acl.operation.upper()],
        resource_type=ResourceType[acl.resource_type.upper()],
        resource_name=acl.resource_name,
        pattern_type=PatternType[acl.pattern.upper()],
    )


@operations.get("/acls", "List rules", query=(*PAGE, *FILTERS), answer=AclPage)
async def list_acls(call: Call) -> AclPage:
    wanted = _filter(call.query)
    found = [_acl(rule) for rule in await call.caller.rules(lambda admin: admin.find(wanted))]
    if not found:
        await _require_that_rules_may_be_seen(call)
    return AclPage(*page(found, call.query, _name_of_acl))


async def _require_that_rules_may_be_seen(call: Call) -> None:
    """librdkafka finds none, and no error, where the caller may not see them."""
    nobodys = DescribeAclsRequest(
        resource_type_filter=ResourceType.CLUSTER,
        resource_name_filter="",
        principal_filter="",
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    reply = await (await call.caller.cluster.any_connection()).call(nobodys)
    if reply.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise_for(reply.error_code, "the rules", reply.error_message)


def _name_of_acl(acl: Acl) -> str:
    return "\n".join(astuple(acl))


@operations.post("/acls", "Make rules", body=Acls, answer=Acls, status=201)
async def create_acls(call: Call) -> Acls:
    wanted: Acls = call.body
    rules = [_rule(acl) for acl in wanted.acls]
    if rules:
        await call.caller.rules(lambda admin: admin.create(rules))
    return wanted


@operations.delete("/acls", "Remove rules", query=FILTERS, answer=Acls)
async def delete_acls(call: Call) -> Acls:
    """Removes what the filters find; without any filter nothing is removed, for that would be everything."""
    if not any(call.query.values()):
        raise bad_request("Name at least one filter: without any, all rules would go.")
    wanted = _filter(call.query)
    return Acls([_acl(rule) for rule in await call.caller.rules(lambda admin: admin.remove([wanted]))])


@operations.get("/users", "List users", query=PAGE, answer=UserPage)
async def list_users(call: Call) -> UserPage:
    found = await call.caller.users(lambda users: users.all())
    shown, following = page(found, call.query)
    return UserPage([User(name, found[name]) for name in shown], following)


@operations.get("/users/{user}", "Show a user", answer=User)
async def show_user(call: Call) -> User:
    found = await call.caller.users(lambda users: users.all())
    if call.path("user") not in found:
        raise not_found("user_not_found", "There is no such user.", "GET /users lists those there are.")
    return User(call.path("user"), found[call.path("user")])


@operations.put("/users/{user}", "Add a user, or set a password", body=Password)
async def set_password(call: Call) -> None:
    name, wanted = call.path("user"), call.body.password
    await call.caller.users(lambda users: users.set_password(name, wanted))


@operations.delete("/users/{user}", "Remove a user")
async def remove_user(call: Call) -> None:
    found = await show_user(call)
    await call.caller.users(lambda users: users.remove(found.name, set(found.mechanisms)))


@operations.get("/quotas", "List limits", query=PAGE, answer=QuotaPage)
async def list_quotas(call: Call) -> QuotaPage:
    return QuotaPage(*page(await _quotas(call), call.query, _name_of_quota))


def _name_of_quota(quota: Quota) -> str:
    """The default of a kind is before all that have a name."""
    return "\n".join(f"{kind} {'' if name is None else '=' + name}" for kind, name in sorted(quota.entity.items()))


async def _quotas(call: Call) -> list[Quota]:
    reply = await call.caller.cluster.call(DescribeClientQuotasRequest(components=(), strict=False))
    raise_for(reply.error_code, "the limits", reply.error_message)
    return [
        Quota(
            {part.entity_type: part.entity_name for part in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in reply.entries or ()
    ]


@operations.patch("/quotas", "Set limits, or remove them", body=QuotaChange, answer=QuotaPage)
async def change_quotas(call: Call) -> QuotaPage:
    """Answers what holds then for this entity."""
    wanted: QuotaChange = call.body
    if not wanted.entity or not wanted.limits:
        raise InvalidArgument("entity and limits must not be empty")
    entry = EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in wanted.entity.items()),
        ops=tuple(OpData(key=name, value=value or 0.0, remove=value is None) for name, value in wanted.limits.items()),
    )
    reply = await call.caller.cluster.call_controller(AlterClientQuotasRequest(entries=(entry,), validate_only=False))
    (answer,) = reply.entries
    raise_for(answer.error_code, "the limits", answer.error_message)
    return QuotaPage([each for each in await _quotas(call) if each.entity == wanted.entity], None)
