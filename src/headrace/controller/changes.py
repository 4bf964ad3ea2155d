"""What an event in the store means to those who act on the cluster's state."""

from collections.abc import Mapping
from uuid import UUID

from headrace.controller.entries import BrokerRegistration, PartitionState
from headrace.declaring import dataclass
from headrace.model.access.acls import AclRule
from headrace.model.access.scram import ScramMechanism


@dataclass(frozen=True, slots=True)
class TopicCreated:
    name: str
    topic_id: UUID
    partition_count: int


@dataclass(frozen=True, slots=True)
class TopicGrew:
    """Partitions [old_count, new_count) are new."""

    name: str
    topic_id: UUID
    old_count: int
    new_count: int


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    name: str
    topic_id: UUID
    partition_count: int


@dataclass(frozen=True, slots=True)
class TopicConfigsChanged:
    name: str
    topic_id: UUID
    before: Mapping[str, str]
    after: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    name: str
    topic_id: UUID
    index: int
    before: PartitionState
    after: PartitionState


@dataclass(frozen=True, slots=True)
class BrokerChanged:
    """A broker came (before is None), went (after is None) or registered anew."""

    broker_id: int
    before: BrokerRegistration | None
    after: BrokerRegistration | None


@dataclass(frozen=True, slots=True)
class BrokerAdmitted:
    """The controller has settled the past of a broker: from now on it may lead and be in sync."""

    broker_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerConfigsChanged:
    """Settings of one broker, or of all (None)."""

    broker_id: int | None


@dataclass(frozen=True, slots=True)
class GroupConfigsChanged:
    """Settings of one group."""

    group_id: str


@dataclass(frozen=True, slots=True)
class QuotaChanged:
    entity: str


@dataclass(frozen=True, slots=True)
class AclChanged:
    """A rule was made (before is None) or removed (after is None)."""

    before: AclRule | None
    after: AclRule | None


@dataclass(frozen=True, slots=True)
class ScramCredentialChanged:
    """What is kept of a user's password was set or removed."""

    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    controller_id: int
    controller_epoch: int


Change = (
    TopicCreated
    | TopicGrew
    | TopicDeleted
    | TopicConfigsChanged
    | PartitionChanged
    | BrokerChanged
    | BrokerAdmitted
    | BrokerConfigsChanged
    | GroupConfigsChanged
    | QuotaChanged
    | AclChanged
    | ScramCredentialChanged
    | ControllerChanged
)
