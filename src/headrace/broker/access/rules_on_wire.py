"""Rules and filters as the protocol carries them.  A number that this broker does not know becomes UNKNOWN, which no rule has."""

from enum import IntEnum
from typing import Final, Protocol, TypeVar

from headrace.model.access.acls import AclFilter, AclRule, Operation, PatternType, Permission, ResourceType, check_rule
from headrace.model.access.principals import PrincipalError, parse_principal
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.create_acls import AclCreation

DISABLED: Final = RequestError(ErrorCode.SECURITY_DISABLED, "No authorizer is set on this broker (authorizer=acl).")

Number = TypeVar("Number", bound=IntEnum)


class AskedFilter(Protocol):
    """A filter in a request."""

    @property
    def resource_type_filter(self) -> int: ...
    @property
    def resource_name_filter(self) -> str | None: ...
    @property
    def pattern_type_filter(self) -> int: ...
    @property
    def principal_filter(self) -> str | None: ...
    @property
    def host_filter(self) -> str | None: ...
    @property
    def operation(self) -> int: ...
    @property
    def permission_type(self) -> int: ...


def rule_of(creation: AclCreation) -> AclRule:
    """The rule to make.  Raises RequestError when it cannot be one."""
    try:
        principal = parse_principal(creation.principal)
    except PrincipalError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{error}.") from None
    rule = AclRule(
        permission=_known(Permission, creation.permission_type),
        principal=principal,
        host=creation.host,
        operation=_known(Operation, creation.operation),
        resource_type=_known(ResourceType, creation.resource_type),
        resource_name=creation.resource_name,
        pattern_type=_known(PatternType, creation.resource_pattern_type),
    )
    check_rule(rule)
    return rule


def filter_of(asked: AskedFilter) -> AclFilter:
    return AclFilter(
        resource_type=_known(ResourceType, asked.resource_type_filter),
        resource_name=asked.resource_name_filter,
        pattern_type=_known(PatternType, asked.pattern_type_filter),
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=_known(Operation, asked.operation),
        permission=_known(Permission, asked.permission_type),
    )


def _known(kind: type[Number], number: int) -> Number:
    try:
        return kind(number)
    except ValueError:
        return kind(0)
