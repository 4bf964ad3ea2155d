"""What is recorded of an act, and what those who describe acts see of the broker.

Who describes a kind of request is asked before it is handled, notes the values that there are, and returns a function of the
response; or None for a request that is no act, such as one that only validates.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.partitions.replicas import Replicas
from headrace.controller.image import CurrentImage
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode
from headrace.security.audit.events import Activity, Resource, ValueChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that was done to some resources, or was tried."""

    activity: Activity
    resources: tuple[Resource, ...]
    error: ErrorCode = ErrorCode.NONE
    detail: str = ""
    changes: tuple[ValueChange, ...] = ()
    # Commits of those without a group's membership come by the second; such acts are aggregated.
    is_repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where the values are that acts change."""

    image: CurrentImage
    replicas: Replicas
    groups: GroupShards
    is_broker: Callable[[RequestContext], bool]


Acts = Iterable[Act]
ActsOf = Callable[[Any], Acts]
Describe = Callable[[Surroundings, Any, RequestContext], ActsOf | None]


def topic_named(name: str) -> Resource:
    return Resource("TOPIC", name)


def outcome(code: int) -> ErrorCode:
    return ErrorCode(code)


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """What became of one partition of a topic."""

    topic: str
    code: int
    change: ValueChange
    detail: str = ""


def by_topic(activity: Activity, outcomes: Iterable[PartitionOutcome], *also: Resource) -> Iterator[Act]:
    """One act for each topic and outcome, with the changes of its partitions."""
    found: dict[tuple[str, int], list[PartitionOutcome]] = defaultdict(list)
    for each in outcomes:
        found[each.topic, each.code].append(each)
    for (topic, code), alike in found.items():
        yield Act(
            activity=activity,
            resources=(*also, topic_named(topic)),
            error=outcome(code),
            detail=next((each.detail for each in alike if each.detail), ""),
            changes=tuple(each.change for each in alike),
        )
