"""Where handlers ask: checks out of the table, put to the rules that hold now.

Without an authorizer everybody may do everything, as Kafka has it.  What brokers do among themselves is only for those who come
by the listener of brokers, whatever the rules say: a super user is none of them.  A no that is a denial is reported with the rule
that decided; a no that only filters a list is not.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from headrace.declaring import dataclass
from headrace.model.access.acls import CLUSTER_NAME, SUPPORTED, Operation, ResourceType
from headrace.model.access.principals import Subject
from headrace.security.audit.events import Origin
from headrace.security.authorization.authorizer import NOT_AMONG_BROKERS, Authorizer, Decision, operation_bits
from headrace.security.authorization.permissions import Check

ANY_NAME: Final = "*"
NOT_ASKED: Final = -(2**31)  # the bits of operations where nobody asked for them
EVERYTHING: Final = {kind: operation_bits(lambda operation: True, kind) for kind in SUPPORTED}


class Asker(Protocol):
    """A request, which knows where it came from."""

    @property
    def origin(self) -> Origin: ...


@dataclass(frozen=True, slots=True)
class Denial:
    """Somebody was not allowed something."""

    subject: Subject
    check: Check
    name: str
    decision: Decision
    asker: Asker | None = None


class Guard:
    """The rules of this moment.  `authorizer` is exchanged when they change; None is no authorization at all."""

    def __init__(self, authorizer: Authorizer | None = None, on_denied: Callable[[Denial], None] = lambda denial: None) -> None:
        self.authorizer = authorizer
        self.on_denied = on_denied
        # Whether a listener is one that brokers use among themselves.
        self.is_of_brokers: Callable[[str], bool] = lambda listener: True

    def allows(self, subject: Subject, check: Check, name: str = CLUSTER_NAME, asker: Asker | None = None) -> bool:
        """Whether somebody may do what the check is about, to the resource of this name.  A denial tells of the asker."""
        authorizer = self.authorizer
        if authorizer is None or (
            authorizer.allows_some(subject, check.operation, check.resource_type)
            if check.some
            else authorizer.allows(subject, check.operation, check.resource_type, name)
        ):
            return check.operation is not Operation.CLUSTER_ACTION or asker is None or self._is_among_brokers(check, asker)
        if check.is_denial:
            self._report(authorizer, subject, check, name, asker)
        return False

    def _is_among_brokers(self, check: Check, asker: Asker) -> bool:
        origin = asker.origin
        if self.is_of_brokers(origin.listener):
            return True
        if check.is_denial:
            self.on_denied(Denial(origin.subject, check, CLUSTER_NAME, NOT_AMONG_BROKERS, asker))
        return False

    def listed(self, subject: Subject, check: Check, names: Iterable[str]) -> list[str]:
        """Those that a list of all shows, in the order given.  What is left out was not asked for, and is no denial."""
        authorizer = self.authorizer
        if authorizer is None:
            return list(names)
        return [name for name in names if authorizer.allows(subject, check.operation, check.resource_type, name)]

    def authorized_operations(self, subject: Subject, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """A bit for each operation that is allowed (KIP-430).  Nobody is denied anything by it."""
        if self.authorizer is None:
            return EVERYTHING[resource_type]
        return self.authorizer.authorized_operations(subject, resource_type, name)

    def _report(self, authorizer: Authorizer, subject: Subject, check: Check, name: str, asker: Asker | None) -> None:
        if check.some:
            decision = authorizer.decide_some(subject, check.operation, check.resource_type)
            self.on_denied(Denial(subject, check, ANY_NAME, decision, asker))
        else:
            decision = authorizer.decide(subject, check.operation, check.resource_type, name)
            self.on_denied(Denial(subject, check, name, decision, asker))
