"""Rules of who may do what, as Kafka has them: a rule's parts, filters over rules, and what makes a rule wrong.

The numbers are the protocol's.  A rule names a resource by its whole name, by the beginning of it (PREFIXED), or, as the literal
`*`, by none: then it is about all of that type.
"""

from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from headrace.declaring import dataclass
from headrace.model.access.principals import GROUP, Principal
from headrace.model.errors import ErrorCode, RequestError

CLUSTER_NAME: Final = "kafka-cluster"
ANY_RESOURCE: Final = "*"
ANY_HOST: Final = "*"
IPV6_BLOCK_BITS: Final = 64


class ResourceType(IntEnum):
    """What a rule is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a rule's name is compared.  ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What somebody wants to do."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether a rule permits or forbids."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


RESOURCE_TYPES: Final = tuple(ResourceType)[2:]
OPERATIONS: Final = tuple(Operation)[3:]

# ALLOW of the one permits the other as well; DENY forbids only what it says.
IMPLIED: Final = {
    Operation.READ: frozenset({Operation.DESCRIBE}),
    Operation.WRITE: frozenset({Operation.DESCRIBE}),
    Operation.DELETE: frozenset({Operation.DESCRIBE}),
    Operation.ALTER: frozenset({Operation.DESCRIBE}),
    Operation.ALTER_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS}),
}

# What can be done with a resource of each type: KIP-430 tells it to whoever asks for the authorized operations.
SUPPORTED: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRule:
    """A principal may, or may not, do something with some resources from some hosts."""

    permission: Permission = Permission.ALLOW
    principal: Principal
    host: str = ANY_HOST
    operation: Operation
    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        """`allow User:ann to WRITE TOPIC "orders"`, for explanations and the audit."""
        name = "*" if self.is_about_all else repr(self.resource_name) + ("…" if self.pattern_type is PatternType.PREFIXED else "")
        host = "" if self.host == ANY_HOST else f" from {self.host}"
        return (
            f"{self.permission.name.lower()} {self.principal.shown} to {self.operation.name} "
            f"{self.resource_type.name} {name}{host}"
        )

    @property
    def is_about_all(self) -> bool:
        return self.pattern_type is PatternType.LITERAL and self.resource_name == ANY_RESOURCE

    @property
    def operations(self) -> frozenset[Operation]:
        """What it decides, with what is implied."""
        if self.operation is Operation.ALL:
            return frozenset(OPERATIONS)
        implied = IMPLIED.get(self.operation, frozenset()) if self.permission is Permission.ALLOW else frozenset()
        return implied | {self.operation}


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which rules are meant.  None and ANY match whatever is there; MATCH finds the rules that are about a name."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, rule: AclRule) -> bool:
        return self._matches_resource(rule) and self._matches_entry(rule)

    def _matches_resource(self, rule: AclRule) -> bool:
        if self.resource_type not in (ResourceType.ANY, rule.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, rule.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.resource_name == rule.resource_name
        if rule.pattern_type is PatternType.PREFIXED:
            return self.resource_name.startswith(rule.resource_name)
        return rule.resource_name in (self.resource_name, ANY_RESOURCE)

    def _matches_entry(self, rule: AclRule) -> bool:
        return (
            self.principal in (None, str(rule.principal))
            and self.host in (None, rule.host)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
        )


def check_rule(rule: AclRule) -> None:
    """What cannot be a rule, or would never apply, raises RequestError: a DENY that never applies is a door left open."""
    if rule.resource_type not in RESOURCE_TYPES:
        raise _wrong(f"A rule is not about resources of type {rule.resource_type.name}.")
    if rule.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _wrong(f"A rule's pattern is LITERAL or PREFIXED, not {rule.pattern_type.name}.")
    if rule.operation in (Operation.UNKNOWN, Operation.ANY):
        raise _wrong(f"{rule.operation.name} is not an operation that a rule permits or forbids.")
    if rule.permission not in (Permission.ALLOW, Permission.DENY):
        raise _wrong(f"A rule says ALLOW or DENY, not {rule.permission.name}.")
    if not rule.resource_name:
        raise _wrong("A rule names a resource: the name is empty.")
    if rule.resource_type is ResourceType.CLUSTER and rule.resource_name not in (CLUSTER_NAME, ANY_RESOURCE):
        raise _wrong(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}.")
    if rule.principal == Principal(GROUP, "*"):
        raise _wrong("There are no rules for Group:*; User:* is everybody.")
    check_host(rule.host)


def check_filter(wanted: AclFilter) -> None:
    if 0 in (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission):
        raise _wrong("The filter has a part that this broker does not know.")


def check_host(host: str) -> None:
    """`*`, an address, or a network such as 10.0.0.0/8, spelled as connections show it."""
    if host == ANY_HOST:
        return
    try:
        spelled = str(ip_network(host) if "/" in host else ip_address(host))
    except ValueError:
        raise _wrong(f"{host!r} is not a host; write *, an IP address, or a network such as 10.0.0.0/8.") from None
    if spelled != host:
        raise _wrong(f"The host {host} is spelled {spelled}.")


def read_address(address: str) -> IPv4Address | IPv6Address | None:
    """An address as a socket tells it.  An IPv4 address seen through an IPv6 socket is the IPv4 address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def block_of(address: str) -> str:
    """Whose address it is, as far as that can be told: who has one of IPv6 mostly has 2^64 of them, and counts as one."""
    found = read_address(address) if ":" in address else None
    if isinstance(found, IPv6Address):
        return str(IPv6Network((int(found), IPV6_BLOCK_BITS), strict=False))
    return address if found is None else str(found)


def read_network(host: str) -> IPv4Network | IPv6Network | None:
    """The addresses that a rule's host means; None means all.  The host has been checked."""
    return None if host == ANY_HOST else ip_network(host)


def _wrong(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, message)
