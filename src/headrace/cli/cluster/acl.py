"""`headrace acl`: who may do what; which rule it is that says so; and what a client of some kind needs."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Properties, Yes, client_properties
from headrace.cli.failure import Failure
from headrace.cli.output import confirm, counted, remark, show_json, show_table
from headrace.model.access.acls import (
    ANY_HOST,
    ANY_RESOURCE,
    CLUSTER_NAME,
    SUPPORTED,
    AclFilter,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    check_rule,
    read_address,
)
from headrace.model.access.principals import (
    ANONYMOUS,
    USER,
    Principal,
    PrincipalError,
    Subject,
    parse_principal,
    parse_super_users,
    user,
)
from headrace.model.errors import RequestError

if TYPE_CHECKING:
    from headrace.client.admin.acls import RuleAdmin
    from headrace.security.authorization.authorizer import Authorizer, Decision

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Who may do what, on a cluster with authorizer=acl. What no rule allows is refused; a rule that denies wins.",
    epilog="[bold]headrace acl template producer --user ann --topic orders[/bold] shows what a client needs; "
    "[bold]headrace acl check --user ann --write orders[/bold] says whether it may, and by which rule.",
)

KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transaction": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
}
NAMES = {kind: name for name, kind in KINDS.items()}
# The operations, with what they are for.
RIGHTS = {
    Operation.READ: "read records of a topic, commit its offsets; be in a group",
    Operation.WRITE: "write to a topic; use a transactional id",
    Operation.CREATE: "create a topic; on the cluster, any topic",
    Operation.DELETE: "delete a topic, its records, or a group",
    Operation.ALTER: "add partitions to a topic; on the cluster, move partitions and make rules",
    Operation.DESCRIBE: "see that it is there, and how it is; comes with read, write, delete and alter",
    Operation.DESCRIBE_CONFIGS: "see settings",
    Operation.ALTER_CONFIGS: "change settings, and on the cluster quotas",
    Operation.CLUSTER_ACTION: "do what brokers do among themselves; for the cluster only",
    Operation.IDEMPOTENT_WRITE: "produce idempotently, as older versions had it: --write is enough today",
    Operation.ALL: "do everything that can be done with it",
}
RESOURCE_HELP = "RESOURCE is a topic's name, group:NAME, transaction:NAME or cluster; NAME* matches a prefix, * matches all."

User = Annotated[
    str, typer.Option("--user", "-u", metavar="NAME", help="Who: the name of a user, * for everybody, or Group:NAME.")
]
AnyUser = Annotated[str | None, typer.Option("--user", "-u", metavar="NAME", help="Only the rules of this user.")]
Host = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="From where: an address, a network such as 10.0.0.0/8, * for anywhere.")
]


@dataclass(frozen=True, slots=True)
class Right:
    """An operation on resources."""

    operation: Operation
    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    @property
    def resource(self) -> str:
        """As it is written on the command line."""
        return resource_text(self.resource_type, self.name, self.pattern_type)


def resource_text(kind: ResourceType, name: str, pattern_type: PatternType) -> str:
    if kind is ResourceType.CLUSTER:
        return "cluster"
    shown = name + "*" * (pattern_type is PatternType.PREFIXED)
    return shown if kind is ResourceType.TOPIC else f"{NAMES.get(kind, kind.name.lower())}:{shown}"


def read_right(operation: Operation, text: str) -> Right:
    """`orders`, `orders-*`, `*`, `group:readers`, `cluster`."""
    kind, colon, name = text.partition(":")
    if text == "cluster":
        return Right(operation, ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
    if not colon:
        kind, name = "topic", text
    if kind not in KINDS or kind == "cluster" or not name:
        raise typer.BadParameter(f"{text!r} is not a resource. {RESOURCE_HELP}")
    if name != ANY_RESOURCE and name.endswith("*"):
        return Right(operation, KINDS[kind], name[:-1], PatternType.PREFIXED)
    return Right(operation, KINDS[kind], name, PatternType.LITERAL)


def read_principal(text: str) -> Principal:
    try:
        return parse_principal(text) if text.startswith(("User:", "Group:")) else user(text)
    except PrincipalError as error:
        raise typer.BadParameter(f"{error}.") from None


def read_group(text: str) -> Principal:
    """A group by its name, with `Group:` before it or without."""
    return read_principal(text if text.startswith("Group:") else f"Group:{text}")


def with_rights(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each operation, `--write RESOURCE`, whose values it gets as `rights`."""
    options = {operation.name.lower(): operation for operation in RIGHTS}

    def whole(**given: Any) -> None:
        rights = [read_right(options[name], text) for name in options for text in given.pop(name) or []]
        command(rights=rights, **given)

    own = [each for each in Signature.from_callable(command).parameters.values() if each.name != "rights"]
    added = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=_option(operation))
        for name, operation in options.items()
    ]
    parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own]
    whole.__signature__ = Signature([*parameters, *added])  # type: ignore[attr-defined]
    whole.__annotations__ = {each.name: each.annotation for each in (*parameters, *added)}
    whole.__doc__ = command.__doc__
    return whole


def _flag(operation: Operation) -> str:
    return f"--{operation.name.lower().replace('_', '-')}"


def _option(operation: Operation) -> Any:
    return Annotated[list[str] | None, typer.Option(_flag(operation), metavar="RESOURCE", help=f"May {RIGHTS[operation]}.")]


def _admin(bootstrap: str, properties: list[str] | None) -> "RuleAdmin":
    from headrace.client.admin.acls import RuleAdmin

    return RuleAdmin(client_properties(bootstrap, properties))


def _make(
    permission: Permission, user: str, host: str, rights: list[Right], bootstrap: str, properties: list[str] | None
) -> None:
    if not rights:
        raise typer.BadParameter(f"Say what: --write orders, for example. {RESOURCE_HELP}")
    rules = [
        AclRule(
            permission=permission,
            principal=read_principal(user),
            host=host,
            operation=right.operation,
            resource_type=right.resource_type,
            resource_name=right.name,
            pattern_type=right.pattern_type,
        )
        for right in rights
    ]
    for rule in rules:
        _check_has_effect(rule)
        try:
            check_rule(rule)
        except RequestError as error:
            raise typer.BadParameter(str(error.message)) from None
    admin = _admin(bootstrap, properties)
    admin.create(rules)
    for rule in rules:
        remark(f"Made: {rule}.")
    _remark_unknown(read_principal(user), bootstrap, properties)


def _check_has_effect(rule: AclRule) -> None:
    """Brokers take such rules, as Kafka's do, but nobody ever asks about them."""
    supported = SUPPORTED[rule.resource_type]
    if rule.operation is not Operation.ALL and rule.operation not in supported:
        kind = NAMES[rule.resource_type]
        options = ", ".join(_flag(each) for each in RIGHTS if each in supported)
        raise typer.BadParameter(f"{_flag(rule.operation)} has no effect on a {kind}; there are {options} and --all.")


def _remark_unknown(principal: Principal, bootstrap: str, properties: list[str] | None) -> None:
    from headrace.client.admin.users import Users
    from headrace.client.errors import HeadraceError

    if principal.kind != USER or principal.name == "*" or principal == ANONYMOUS:
        return
    try:
        known = Users(client_properties(bootstrap, properties)).all()
    except HeadraceError:
        return  # whoever may make rules need not be able to list users
    if principal.name not in known:
        remark(f"No SCRAM user is called {principal.name}; the rule holds for one whom a certificate or a token gives that name.")


@app.command(
    "allow", epilog=f"Example: [bold]headrace acl allow -u ann --read orders --read group:readers[/bold]   {RESOURCE_HELP}"
)
@with_rights
def allow(
    user: User,
    rights: list[Right],
    host: Host = ANY_HOST,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Allow a user an operation."""
    _make(Permission.ALLOW, user, host, rights, bootstrap, properties)


@app.command("deny", epilog=f"Example: [bold]headrace acl deny -u '*' --write 'audit-*'[/bold]   {RESOURCE_HELP}")
@with_rights
def deny(
    user: User,
    rights: list[Right],
    host: Host = ANY_HOST,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Deny a user an operation, whatever else allows it."""
    _make(Permission.DENY, user, host, rights, bootstrap, properties)


@app.command("list")
def list_rules(
    user: AnyUser = None, as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, properties: Properties = None
) -> None:
    """Show the rules there are."""
    principal = None if user is None else str(read_principal(user))
    admin = _admin(bootstrap, properties)
    rules = admin.find(AclFilter(principal=principal))
    if not rules:
        _explain_none(admin)
    if as_json:
        show_json([_as_json(rule) for rule in rules])
    elif not rules:
        remark("There are no rules." if user is None else f"There are no rules for {principal}.")
    else:
        show_table(
            ("principal", "rule", "operation", "resource", "host"),
            [
                (
                    rule.principal.shown,
                    rule.permission.name.lower(),
                    rule.operation.name.lower(),
                    resource_text(rule.resource_type, rule.resource_name, rule.pattern_type),
                    rule.host,
                )
                for rule in rules
            ],
        )


def _explain_none(admin: "RuleAdmin") -> None:
    """librdkafka finds none, and no error, where there is no authorizer and where one may not see the rules."""
    from headrace.client.errors import BrokerError

    try:
        _require_authorizer(admin)
    except BrokerError as error:
        if error.name != "CLUSTER_AUTHORIZATION_FAILED":
            raise
        # Whoever may see rules and no settings may do so by a rule, which is then found.
        if not admin.find(AclFilter()):
            hint = "`headrace acl allow --user NAME --describe cluster` allows it."
            raise Failure(f"you may not list the rules: that needs DESCRIBE on the cluster. {hint}") from None


def _as_json(rule: AclRule) -> dict[str, str]:
    return {
        "principal": str(rule.principal),
        "permission": rule.permission.name,
        "operation": rule.operation.name,
        "resource_type": rule.resource_type.name,
        "resource_name": rule.resource_name,
        "pattern_type": rule.pattern_type.name,
        "host": rule.host,
    }


@app.command("remove", epilog=f"Example: [bold]headrace acl remove -u ann --write orders[/bold]   {RESOURCE_HELP}")
@with_rights
def remove(
    user: User, rights: list[Right], yes: Yes = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, properties: Properties = None
) -> None:
    """Remove somebody's rules, those that allow and those that deny: the ones named, or all of them."""
    principal = read_principal(user)
    filters = [
        AclFilter(
            principal=str(principal),
            operation=right.operation,
            resource_type=right.resource_type,
            resource_name=right.name,
            pattern_type=right.pattern_type,
        )
        for right in rights
    ] or [AclFilter(principal=str(principal))]
    admin = _admin(bootstrap, properties)
    if not rights and (found := admin.find(filters[0])):
        confirm(f"Remove {counted(len(found), 'rule')} of {principal.shown}?", yes=yes)
    removed = admin.remove(filters)
    for rule in removed:
        remark(f"Removed: {rule}.")
    if not removed:
        remark("There was no such rule.")


@app.command("check", epilog=f"Example: [bold]headrace acl check --user ann --write orders[/bold]   {RESOURCE_HELP}")
@with_rights
def check(
    user: User,
    rights: list[Right],
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="From where: one address, * for any.")] = ANY_HOST,
    group_of: Annotated[
        list[str] | None,
        typer.Option("--group-of", metavar="GROUP", help="A group that the user is in, as a token would say; can be repeated."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Say whether somebody may do something, and by which rule.  Exits with 1 where the answer is no.

    Without --host the answer is for any address, and rules that hold for some addresses only are listed below it.
    """
    if not rights:
        raise typer.BadParameter(f"Say what: --write orders, for example. {RESOURCE_HELP}")
    if patterns := [right.resource for right in rights if right.resource.endswith("*")]:
        raise typer.BadParameter(f"{patterns[0]} is many; ask about one.")
    if host != ANY_HOST and read_address(host) is None:
        raise typer.BadParameter(f"--host {host} is not an address; ask about one, such as 10.0.0.1.")
    subject = Subject(read_principal(user), [read_group(name) for name in group_of or ()], "" if host == ANY_HOST else host)
    admin = _admin(bootstrap, properties)
    authorizers = authorizers_of(_require_authorizer(admin), admin.find(AclFilter()))
    answers = [_explain(right, subject, authorizers, any_host=host == ANY_HOST) for right in rights]
    if not all(answers):
        raise typer.Exit(1)


def authorizers_of(settings: Mapping[int, Mapping[str, str]], rules: Iterable[AclRule]) -> "dict[Authorizer, list[int]]":
    """How brokers decide, by their settings, beside those that do so."""
    from headrace.security.authorization.authorizer import Authorizer
    from headrace.security.authorization.index import AclIndex

    alike: dict[tuple[str, str], list[int]] = {}
    for broker, texts in settings.items():
        alike.setdefault((texts.get("super.users", ""), texts.get("allow.everyone.if.no.acl.found", "")), []).append(broker)
    index = AclIndex(rules)
    return {
        Authorizer(index, parse_super_users(users), allow_everyone_if_no_acl_found=everyone == "true"): brokers
        for (users, everyone), brokers in alike.items()
    }


def _explain(right: Right, subject: Subject, authorizers: "Mapping[Authorizer, list[int]]", *, any_host: bool) -> bool:
    """Say how brokers decide; whether all of them say yes."""
    asked = (subject, right.operation, right.resource_type, right.name)
    decisions: dict[Decision, list[int]] = {}
    for authorizer, brokers in authorizers.items():
        decisions.setdefault(authorizer.decide(*asked), []).extend(brokers)
    what = f"{right.operation.name.lower()} {right.resource}"
    if len(decisions) == 1:
        typer.echo(f"{what}: {next(iter(decisions))}")
    else:
        typer.echo(f"{what}: it depends on the broker, as their super.users or allow.everyone.if.no.acl.found differ")
        for decision, brokers in decisions.items():
            typer.echo(f"  on {_named(sorted(brokers))}: {decision}")
    others = {rule: None for authorizer in authorizers for rule in authorizer.depending_on_address(*asked)}
    if any_host and others:
        typer.echo("  from some addresses it is otherwise, by these rules; --host asks about one address:")
        for rule in others:
            typer.echo(f"  {rule}")
    return all(decision.allowed for decision in decisions)


def _named(brokers: list[int]) -> str:
    return f"broker{'s' * (len(brokers) > 1)} {', '.join(map(str, brokers))}"


def _require_authorizer(admin: "RuleAdmin") -> dict[int, dict[str, str]]:
    """The settings of the brokers, which have to have an authorizer.  librdkafka finds none, and no error, where they do not."""
    settings = admin.broker_settings()
    free = [
        broker
        for broker, texts in settings.items()
        if texts.get("authorizer", "acl") == "none" and not texts.get("authorizer.class.name")
    ]
    if len(free) == len(settings):
        raise Failure("this cluster has no authorizer: everybody may do everything. Set authorizer=acl on every broker.")
    if free:
        raise Failure(
            f"{_named(free)} of this cluster: no authorizer, and everybody may do everything there. Set authorizer=acl."
        )
    return settings


class ClientKind(StrEnum):
    """What kinds of clients there are templates for."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    TRANSACTIONAL = "transactional"
    SPARK = "spark"
    GATEWAY = "gateway"
    ADMIN = "admin"


# What each needs, beside the reason.  {topic}, {group} and {id} are what was given.
TEMPLATES: dict[ClientKind, tuple[tuple[str, str, str], ...]] = {
    ClientKind.PRODUCER: (("--write", "{topic}", "to write; idempotence needs no more"),),
    ClientKind.CONSUMER: (
        ("--read", "{topic}", "to read, and to commit offsets"),
        ("--read", "group:{group}", "to be in the group"),
    ),
    ClientKind.TRANSACTIONAL: (
        ("--write", "{topic}", "to write"),
        ("--write", "transaction:{id}", "to begin and end transactions under this id"),
        ("--read", "{topic}", "to commit offsets of what was read within a transaction"),
        ("--read", "group:{group}", "to commit them for this group"),
    ),
    ClientKind.SPARK: (
        ("--read", "{topic}", "for the source, which keeps offsets in its checkpoint and is in no group"),
        ("--write", "{topic}", "for the sink"),
        ("--write", "transaction:headrace-sink-*", "for the sink that writes exactly once, whose ids begin so"),
        ("--read", "group:headrace-sink-*", "exactly once: under such a group it keeps which batches are written"),
        ("--read", "__headrace_deliveries", "exactly once: the topic of that group's offsets"),
        ("--create", "__headrace_deliveries", "exactly once: which is made the first time"),
    ),
    ClientKind.GATEWAY: (
        *(
            (option, "__headrace_gateway", "to keep webhooks and to know of other gateways; nobody else needs it")
            for option in ("--create", "--read", "--write")
        ),
        *(
            (option, "_schemas", "to keep schemas; whoever may read or write it over HTTP needs that right, too")
            for option in ("--create", "--read", "--write", "--describe-configs")
        ),
        ("--write", "transaction:headrace-registry-_schemas", "to be the registry's only writer"),
        ("--describe", "cluster", "to place those topics on as many brokers as there are"),
    ),
    ClientKind.ADMIN: tuple(
        ("--all", resource, reason)
        for resource, reason in (
            ("*", "every topic"),
            ("group:*", "every group"),
            ("transaction:*", "every transactional id"),
            ("cluster", "the cluster, and the rules themselves"),
        )
    ),
}


@app.command("template", epilog="Example: [bold]headrace acl template consumer -u ann --topic orders --group readers[/bold]")
def template(
    kind: Annotated[ClientKind, typer.Argument(help="What kind of client it is.")],
    user: User,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="Its topic; NAME* matches a prefix, * all. Every kind but gateway and admin needs it."),
    ] = None,
    group: Annotated[str | None, typer.Option("--group", help="Its group, if it is in one.")] = None,
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", help="Its transactional id; the kind transactional needs it.")
    ] = None,
) -> None:
    """Print the commands that allow a client of some kind what it needs, with the reasons.  Nothing is changed."""
    read_principal(user)
    given = {"topic": topic, "group": group, "id": transactional_id}
    needed = {"topic": "--topic", "id": "--transactional-id"}
    lines = []
    for option, resource, reason in TEMPLATES[kind]:
        lacking = next((name for name, value in given.items() if value is None and f"{{{name}}}" in resource), None)
        if lacking in needed:
            raise typer.BadParameter(f"a {kind} needs {needed[lacking]}; give a name, NAME* for a prefix, or * for all.")
        if lacking is not None:
            lines.append(f"# without --group: no right {reason}")
            continue
        filled = resource.format(**given).replace("**", "*")
        lines.append(f"headrace acl allow --user {shlex.quote(user)} {option} {shlex.quote(filled)}  # {reason}")
    typer.echo("\n".join(lines))
