"""How clients find their way: Metadata and FindCoordinator, each called with just what it touches."""

import asyncio
from typing import Any

from headrace.broker.handlers import find_coordinator, metadata
from headrace.controller.entries import BrokerRegistration, Endpoint, PartitionState
from headrace.controller.image import ClusterImage, Topic
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID
from headrace.model.live_config import LiveConfig
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.handlers.requests import context_of

UNTOUCHED: Any = None


class Creations:
    """Takes the names of topics that are to be created."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin(self, name: str, asker: object) -> None:
        self.begun.append(name)

    def is_under_way(self, name: str) -> bool:
        return name in self.begun


def named(name: str, *, may_create: bool = True) -> MetadataRequest:
    topic = MetadataRequestTopic(name=name, topic_id=NO_TOPIC_ID)
    return MetadataRequest(topics=(topic,), allow_auto_topic_creation=may_create)


def asked(request: MetadataRequest, creations: Any, enabled: str = "true") -> ErrorCode:
    config = LiveConfig(BrokerConfig({"auto.create.topics.enable": enabled}))
    response = metadata.handle(request, context_of(request, 12), ClusterImage, creations, config, broker_id=1)
    return ErrorCode(response.topics[0].error_code)


def test_naming_a_topic_has_it_created_where_client_and_broker_agree() -> None:
    creations = Creations()

    assert asked(named("a"), creations, enabled="false") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert asked(named("b", may_create=False), creations) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert asked(named("c"), creations) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert asked(named("no such name!"), creations) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert creations.begun == ["c"]


def test_a_leader_without_the_listener_that_a_client_uses_is_no_leader_for_it() -> None:
    elsewhere = BrokerRegistration(broker_id=1, endpoints={"REPLICATION": Endpoint(host="there", port=9092)})
    topic = Topic("t", NO_TOPIC_ID, {}, [PartitionState(replicas=(1,), leader=1, isr=(1,))])
    image = ClusterImage(brokers={1: elsewhere}, topics={"t": topic})
    creations: Any = Creations()

    response = metadata.handle(
        named("t"), context_of(named("t"), 12), lambda: image, creations, LiveConfig(BrokerConfig()), broker_id=1
    )

    assert response.brokers == ()
    assert [each.error_code for each in response.topics[0].partitions] == [ErrorCode.LISTENER_NOT_FOUND]


def found(topics: Any, key_type: int, image: ClusterImage) -> tuple[ErrorCode, int]:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("g",))
    response = asyncio.run(
        find_coordinator.handle(
            request,
            context_of(request, 4),
            lambda: image,
            topics,
            groups=UNTOUCHED,
            transactions=UNTOUCHED,
            share_states=UNTOUCHED,
            settled=UNTOUCHED,
            broker_id=1,
        )
    )
    coordinator = response.coordinators[0]
    return ErrorCode(coordinator.error_code), coordinator.node_id


def test_a_coordinator_on_another_broker_is_named_without_a_look_at_the_own_ones() -> None:
    class Made:
        async def ensure(self, name: str) -> Topic:
            return Topic(name, NO_TOPIC_ID, {}, [PartitionState(replicas=(2,), leader=2, isr=(2,))])

    other = BrokerRegistration(broker_id=2, endpoints={"PLAINTEXT": Endpoint(host="there", port=9092)})

    assert found(Made(), 0, ClusterImage(brokers={2: other})) == (ErrorCode.NONE, 2)
    assert found(Made(), 0, ClusterImage())[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_coordinator_whose_topic_cannot_be_made_yet_is_not_available() -> None:
    class TooFewBrokers:
        async def ensure(self, name: str) -> Topic:
            raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, "There are too few brokers.")

    assert found(TooFewBrokers(), 0, ClusterImage())[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert found(UNTOUCHED, 9, ClusterImage())[0] is ErrorCode.INVALID_REQUEST
