"""Which brokers are alive, in which of their lives, and who may write what.

A broker's life is its broker epoch: the create revision of its key.  The controller settles the past of each life (the broker is
taken out of in-sync sets and leads nothing) before it admits the next, so that what a killed process forgot is never
mistaken for what its successor knows.  Every write names the life of its writer as a condition.
"""

from collections.abc import Iterator

from headrace.controller.entries import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    BrokerRegistration,
    Compare,
    CompareCreated,
    Condition,
    ConditionalWrite,
    Delete,
    Put,
    absent,
    admitted_key,
    broker_key,
    encode_number,
    member_key,
)
from headrace.controller.image import ClusterImage
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError


def may_act(now: float, renewed_at: float, granted_s: float, fence_after: float) -> bool:
    """Whether a lease, renewed by a request sent at `renewed_at`, surely still holds: the store counts from when it arrived."""
    return now - renewed_at < granted_s * fence_after


def written_by(broker: BrokerRegistration) -> Condition:
    """Holds while this life of the broker lasts."""
    return CompareCreated(broker_key(broker.broker_id), broker.epoch)


def claim_controller(image: ClusterImage, broker: BrokerRegistration, lease: int) -> ConditionalWrite:
    """Become controller, if there is none, under the next controller epoch."""
    epoch = image.controller_epoch + 1
    return ConditionalWrite(
        (absent(CONTROLLER), Compare(CONTROLLER_EPOCH, image.mod_revision(CONTROLLER_EPOCH)), written_by(broker)),
        (Put(CONTROLLER_EPOCH, encode_number(epoch)), Put(CONTROLLER, encode_number(broker.broker_id), lease)),
    )


def written_by_controller(image: ClusterImage) -> Condition:
    """Holds while the controller that this image shows is still the one."""
    return CompareCreated(CONTROLLER, image.create_revision(CONTROLLER))


@dataclass(frozen=True, slots=True)
class Departed:
    """A broker whose life ended, or which the controller has not seen end."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A broker in a life not yet admitted."""

    broker: BrokerRegistration


def unsettled(image: ClusterImage) -> Iterator[Departed | Arrived]:
    """What the controller has yet to do about brokers that came and went.  Departures first: they free leaderships."""
    for broker_id in sorted(image.admitted):
        if broker_id not in image.brokers:
            yield Departed(broker_id)
    for broker_id in sorted(image.brokers):
        if not image.is_admitted(broker_id):
            yield Arrived(image.brokers[broker_id])


def admit(image: ClusterImage, broker: BrokerRegistration) -> ConditionalWrite:
    """The last step of an arrival.  Holds only if the broker is still in that life."""
    key = admitted_key(broker.broker_id)
    return ConditionalWrite(
        (written_by_controller(image), written_by(broker), Compare(key, image.mod_revision(key))),
        (Put(key, encode_number(broker.epoch)),),
    )


def dismiss(image: ClusterImage, broker_id: int) -> ConditionalWrite:
    """The last step of a departure."""
    key = admitted_key(broker_id)
    return ConditionalWrite((written_by_controller(image), Compare(key, image.mod_revision(key))), (Delete(key),))


def unregister(image: ClusterImage, broker_id: int) -> ConditionalWrite:
    """Forget a broker that will not come back.  Raises RequestError while it is alive or holds replicas."""
    if broker_id not in image.members and broker_id not in image.brokers:
        raise RequestError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered.")
    if broker_id in image.brokers:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is running; stop it first.")
    holding = sum(broker_id in state.replicas for _, _, state in image.partitions())
    if holding:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} still holds {holding} replica(s); drain it first.")
    return ConditionalWrite((absent(broker_key(broker_id)),), (Delete(member_key(broker_id)),))
