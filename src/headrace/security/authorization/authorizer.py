"""May they?  Decisions from rules: pure, and remembered.

A super user may do everything.  Else a rule that denies wins over any that allow; a rule that allows permits; with neither,
nobody may, unless `allow.everyone.if.no.acl.found` is set and no rule at all is about the resource.  Some topics need a right of
their own: only a rule that names one allows it, not one for all topics, nor one for a prefix shorter than its name.  What brokers
write themselves nobody else writes, a super user neither: they are known before anybody asks here.  An authorizer and what it
remembers belong to one set of rules: a change of rules makes another, so that nothing remembered is ever stale.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from headrace.declaring import dataclass
from headrace.model.access.acls import SUPPORTED, AclRule, Operation, PatternType, ResourceType, read_address
from headrace.model.access.principals import EVERYBODY, Principal, Subject
from headrace.model.names import NEED_OWN_RIGHT, WRITTEN_BY_BROKERS
from headrace.security.authorization.index import AclIndex, Entry, Pattern

LOOKING: Final = frozenset({Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS})
WRITING: Final = frozenset({Operation.WRITE, Operation.ALL})
REMEMBERED_MAX: Final = 50_000
# A longer name is decided each time: what clients make up must not fill the memory.
REMEMBERED_NAME_CHARACTERS_MAX: Final = 256


class Reason(Enum):
    """What a decision rests on."""

    SUPER_USER = "a super user may do everything"
    RULE = "by rule"
    NO_RULES = "no rule is about it, and allow.everyone.if.no.acl.found is set"
    NOTHING_ALLOWS = "no rule allows it"
    NOT_NAMED = "no rule allows it that names this topic, and one for all topics does not count here"
    WRITTEN_BY_BROKERS = "only brokers write to this topic, whatever the rules say"
    NOT_AMONG_BROKERS = "only brokers may, by the listener that they use among themselves"


@dataclass(frozen=True, slots=True)
class Decision:
    """Yes or no, and why."""

    allowed: bool
    reason: Reason
    rule: AclRule | None = None

    def __str__(self) -> str:
        answer = "yes" if self.allowed else "no"
        return f"{answer}, {self.reason.value}: {self.rule}" if self.rule else f"{answer}: {self.reason.value}"


SUPER_USER: Final = Decision(True, Reason.SUPER_USER)
NO_RULES: Final = Decision(True, Reason.NO_RULES)
NOTHING_ALLOWS: Final = Decision(False, Reason.NOTHING_ALLOWS)
NOT_NAMED: Final = Decision(False, Reason.NOT_NAMED)
ONLY_BROKERS_WRITE: Final = Decision(False, Reason.WRITTEN_BY_BROKERS)
NOT_AMONG_BROKERS: Final = Decision(False, Reason.NOT_AMONG_BROKERS)


class Authorizer:
    """Decides by one set of rules."""

    __slots__ = ("_index", "_remembered", "_remembered_by_type", "allow_everyone", "super_users")

    def __init__(
        self, index: AclIndex, super_users: Iterable[Principal] = (), *, allow_everyone_if_no_acl_found: bool = False
    ) -> None:
        self._index = index
        self.super_users = frozenset(super_users)
        self.allow_everyone = allow_everyone_if_no_acl_found
        self._remembered: dict[tuple[Subject, Operation, ResourceType, str], Decision] = {}
        self._remembered_by_type: dict[tuple[Subject, Operation, ResourceType], Decision] = {}

    def changed(self, *, added: Iterable[AclRule] = (), removed: Iterable[AclRule] = ()) -> "Authorizer":
        """The authorizer of the changed rules, which remembers nothing yet."""
        index = self._index.changed(added=added, removed=removed)
        return Authorizer(index, self.super_users, allow_everyone_if_no_acl_found=self.allow_everyone)

    def allows(self, subject: Subject, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether somebody may do this to one resource.  On the way of every Produce and Fetch."""
        decision = self._remembered.get((subject, operation, resource_type, name))
        return (decision or self.decide(subject, operation, resource_type, name)).allowed

    def decide(self, subject: Subject, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        """The same, with the reason."""
        key = (subject, operation, resource_type, name)
        decision = self._remembered.get(key)
        if decision is None:
            decision = self._decide(subject, operation, resource_type, name)
            if len(name) <= REMEMBERED_NAME_CHARACTERS_MAX:
                if len(self._remembered) >= REMEMBERED_MAX:
                    self._remembered.clear()
                self._remembered[key] = decision
        return decision

    def depending_on_address(
        self, subject: Subject, operation: Operation, resource_type: ResourceType, name: str
    ) -> list[AclRule]:
        """Of somebody whose address is not known: the rules that would decide otherwise for some addresses."""
        decision = self._decide(subject, operation, resource_type, name)
        if decision in (SUPER_USER, ONLY_BROKERS_WRITE) or (decision.rule is not None and not decision.allowed):
            return []
        found = [
            entry
            for entries in self._index.about(resource_type, name)
            for principal in principals_of(subject)
            for entry in entries.get(principal, ())
            if entry.network is not None and operation in entry.operations
            if entry.denies or not _needs_own_right(operation, resource_type, name) or entry.rule.resource_name == name
        ]
        # Where nothing allows it for all, what denies it to some matters as soon as something allows it to them.
        matters = decision.allowed or any(not entry.denies for entry in found)
        return [entry.rule for entry in found if matters and (entry.denies or not decision.allowed)]

    def allows_some(self, subject: Subject, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is a name, of a resource that may not exist yet, with which they may do this."""
        return self.decide_some(subject, operation, resource_type).allowed

    def decide_some(self, subject: Subject, operation: Operation, resource_type: ResourceType) -> Decision:
        key = (subject, operation, resource_type)
        decision = self._remembered_by_type.get(key)
        if decision is None:
            if len(self._remembered_by_type) >= REMEMBERED_MAX:
                self._remembered_by_type.clear()
            decision = self._remembered_by_type[key] = self._decide_some(subject, operation, resource_type)
        return decision

    def authorized_operations(self, subject: Subject, resource_type: ResourceType, name: str) -> int:
        """A bit for each operation that is allowed (KIP-430)."""
        return operation_bits(lambda operation: self.allows(subject, operation, resource_type, name), resource_type)

    def _decide(self, subject: Subject, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        principals = principals_of(subject)
        if operation in WRITING and name in WRITTEN_BY_BROKERS and resource_type is ResourceType.TOPIC:
            return ONLY_BROKERS_WRITE
        if not self.super_users.isdisjoint(principals):
            return SUPER_USER
        about = self._index.about(resource_type, name)
        address = read_address(subject.address)
        needs_own_right = _needs_own_right(operation, resource_type, name)
        allowing: Entry | None = None
        for entries in about:
            for principal in principals:
                for entry in entries.get(principal, ()):
                    if entry.decides(operation, address):
                        if entry.denies:
                            return Decision(False, Reason.RULE, entry.rule)
                        if not needs_own_right or entry.rule.resource_name == name:
                            allowing = allowing or entry
        if allowing is not None:
            return Decision(True, Reason.RULE, allowing.rule)
        if needs_own_right:
            return NOT_NAMED
        return NO_RULES if self.allow_everyone and not about else NOTHING_ALLOWS

    def _decide_some(self, subject: Subject, operation: Operation, resource_type: ResourceType) -> Decision:
        principals = principals_of(subject)
        if not self.super_users.isdisjoint(principals):
            return SUPER_USER
        address = read_address(subject.address)
        deciding = [each for each in self._index.of(principals, resource_type) if each[1].decides(operation, address)]
        denied = {pattern: entry for pattern, entry in deciding if entry.denies}
        for pattern, entry in denied.items():
            if pattern.is_about_all:
                return Decision(False, Reason.RULE, entry.rule)
        for pattern, entry in deciding:
            if not entry.denies and not _is_covered(pattern, denied):
                return Decision(True, Reason.RULE, entry.rule)
        if self.allow_everyone and not self._index.has_rules_about_all(resource_type):
            return NO_RULES
        return NOTHING_ALLOWS


def _needs_own_right(operation: Operation, resource_type: ResourceType, name: str) -> bool:
    """To see that it is there needs none: who moves all replicas off a broker moves these, too."""
    return name in NEED_OWN_RIGHT and resource_type is ResourceType.TOPIC and operation not in LOOKING


def principals_of(subject: Subject) -> tuple[Principal, ...]:
    """All whose rules apply to somebody."""
    return (subject.principal, *subject.groups, EVERYBODY)


def operation_bits(allows: Callable[[Operation], bool], resource_type: ResourceType) -> int:
    """As a signed number of 32 bits, which has room for them all."""
    return sum(1 << operation for operation in SUPPORTED[resource_type] if allows(operation))


def _is_covered(pattern: Pattern, denied: Iterable[Pattern]) -> bool:
    """Whether denials leave nothing of what a pattern allows.  All names, less some, are still some."""
    if pattern.is_about_all:
        return False
    return any(
        pattern.name.startswith(other.name) if other.pattern_type is PatternType.PREFIXED else pattern == other
        for other in denied
    )
