"""Handlers that make topics and change settings, each called with just what it touches."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from headrace.broker.administration.config_changes import ConfigResourceType
from headrace.broker.administration.settings_view import BrokerSources
from headrace.broker.administration.topics import NewTopic
from headrace.broker.handlers import (
    alter_configs,
    create_partitions,
    create_topics,
    describe_configs,
    describe_topic_partitions,
    incremental_alter_configs,
)
from headrace.broker.network.throttling import Throttling
from headrace.controller.image import ClusterImage, Topic
from headrace.controller.topics import TopicSpec
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.live_config import LiveConfig
from headrace.security.quotas import Quotas
from headrace.wire.messages import alter_configs as replacing
from headrace.wire.messages import incremental_alter_configs as altering
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from tests.unit.broker.handlers.replicas_in_memory import ELSEWHERE, HERE, TOPIC_ID, image_of
from tests.unit.broker.handlers.requests import context_of

UNTOUCHED: Any = None
SET, DELETE, APPEND = 0, 1, 2


def unthrottled() -> Throttling:
    return Throttling(Quotas(dict, lambda: 1), UNTOUCHED, lambda: 0.0, UNTOUCHED)


class Topics:
    """Remembers what it was asked for, and refuses what is there already."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def create(self, wanted: NewTopic, *, validate_only: bool) -> tuple[TopicSpec, None]:
        if wanted.name == "there":
            raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, "It is there already.")
        if not validate_only:
            self.made.append(wanted.name)
        return TopicSpec(
            name=wanted.name, topic_id=TOPIC_ID, partition_count=3, replication_factor=1, configs=wanted.configs
        ), None

    async def grow(self, name: str, count: int, assignments: Any, *, validate_only: bool) -> None:
        if not validate_only:
            self.made.append(f"{name} to {count}")


def topic(name: str, **configs: str | None) -> CreatableTopic:
    given = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items())
    return CreatableTopic(name=name, num_partitions=3, replication_factor=1, assignments=(), configs=given)


def created(*wanted: CreatableTopic, validate_only: bool = False) -> tuple[dict[str, ErrorCode], list[str]]:
    topics: Any = Topics()
    config = LiveConfig(BrokerConfig())
    request = CreateTopicsRequest(topics=wanted, validate_only=validate_only)
    response = asyncio.run(
        create_topics.handle(
            request,
            context_of(request, 7),
            topics,
            lambda: BrokerSources(config.now, ClusterImage(), 1),
            unthrottled(),
            config,
        )
    )
    return {each.name: ErrorCode(each.error_code) for each in response.topics}, topics.made


def test_each_topic_is_made_or_refused_by_itself() -> None:
    codes, made = created(topic("a"), topic("there"), topic("odd", retention_ms=None), topic("twice"), topic("twice"))

    assert codes == {
        "a": ErrorCode.NONE,
        "there": ErrorCode.TOPIC_ALREADY_EXISTS,
        "odd": ErrorCode.INVALID_CONFIG,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert made == ["a"]


def test_topics_that_are_only_checked_are_not_made() -> None:
    assert created(topic("a"), validate_only=True) == ({"a": ErrorCode.NONE}, [])


def test_a_topic_that_is_named_twice_does_not_grow() -> None:
    topics: Any = Topics()
    wanted = tuple(CreatePartitionsTopic(name=name, count=4, assignments=None) for name in ("t", "u", "u"))
    request = CreatePartitionsRequest(topics=wanted, timeout_ms=1000, validate_only=False)

    response = asyncio.run(
        create_partitions.handle(request, context_of(request, 3), lambda: image_of(HERE), topics, unthrottled())
    )

    assert {each.name: each.error_code for each in response.results} == {
        "t": ErrorCode.NONE,
        "u": ErrorCode.INVALID_REQUEST,
    }
    assert topics.made == ["t to 4"]


class Settings:
    """Of one topic: keeps what a change makes of them."""

    def __init__(self, **texts: str) -> None:
        self.texts: Mapping[str, str] = {name.replace("_", "."): text for name, text in texts.items()}

    async def alter(
        self, resource_type: int, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]], *, validate_only: bool
    ) -> None:
        after = change(self.texts)
        if not validate_only:
            self.texts = after


def altered(settings: Settings, *changes: tuple[str, int, str | None]) -> ErrorCode:
    configs: Any = settings
    resource = altering.AlterConfigsResource(
        resource_type=ConfigResourceType.TOPIC,
        resource_name="t",
        configs=tuple(
            altering.AlterableConfig(name=name, config_operation=operation, value=value) for name, operation, value in changes
        ),
    )
    request = altering.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    response = asyncio.run(incremental_alter_configs.handle(request, context_of(request, 1), configs, broker_id=1))
    return ErrorCode(response.responses[0].error_code)


def test_single_settings_are_set_deleted_and_appended_to_all_or_none() -> None:
    settings = Settings(retention_ms="1", cleanup_policy="delete")

    assert altered(settings, ("retention.ms", DELETE, None), ("cleanup.policy", APPEND, "compact")) is ErrorCode.NONE
    assert settings.texts == {"cleanup.policy": "delete,compact"}
    assert altered(settings, ("retention.ms", SET, "5"), ("no.such.setting", SET, "1")) is ErrorCode.INVALID_CONFIG
    assert altered(settings, ("retention.ms", APPEND, "5")) is ErrorCode.INVALID_CONFIG
    assert altered(settings, ("retention.ms", SET, "5"), ("retention.ms", SET, "6")) is ErrorCode.INVALID_REQUEST
    assert settings.texts == {"cleanup.policy": "delete,compact"}


def test_the_old_way_replaces_all_settings() -> None:
    settings = Settings(retention_ms="1")
    configs: Any = settings
    resource = replacing.AlterConfigsResource(
        resource_type=ConfigResourceType.TOPIC,
        resource_name="t",
        configs=(replacing.AlterableConfig(name="cleanup.policy", value="compact"),),
    )
    request = replacing.AlterConfigsRequest(resources=(resource,), validate_only=False)

    asyncio.run(alter_configs.handle(request, context_of(request, 2), configs))

    assert settings.texts == {"cleanup.policy": "compact"}


def test_settings_are_described_with_where_they_come_from() -> None:
    image = image_of(HERE)
    image.topics["t"].configs["retention.ms"] = "5"
    resources = tuple(
        DescribeConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=name, configuration_keys=("retention.ms",))
        for name in ("t", "nobody")
    )
    request = DescribeConfigsRequest(resources=resources)

    response = describe_configs.handle(
        request, context_of(request, 4), lambda: image, lambda: BrokerSources(BrokerConfig(), image, 1), UNTOUCHED, 1
    )

    found, missing = response.results
    assert [(each.name, each.value, each.config_source) for each in found.configs] == [("retention.ms", "5", 1)]
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_are_described_page_by_page_from_the_image_alone() -> None:
    image = image_of(HERE, ELSEWHERE, HERE)
    image.topics["u"] = Topic("u", TOPIC_ID, {}, [HERE])

    request = DescribeTopicPartitionsRequest(
        topics=(TopicRequest(name="t"), TopicRequest(name="u")), response_partition_limit=2, cursor=None
    )
    response = describe_topic_partitions.handle(request, context_of(request, 0), lambda: image)

    assert [(each.name, len(each.partitions)) for each in response.topics] == [("t", 2)]
    assert response.next_cursor is not None
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == ("t", 2)
