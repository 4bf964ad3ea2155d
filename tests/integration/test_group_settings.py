"""Settings of single groups: changed at run time, kept with the metadata, in effect with the next heartbeat (KIP-848)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.alter_configs import AlterableConfig as ReplacedConfig
from headrace.wire.messages.alter_configs import AlterConfigsRequest
from headrace.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.raw import RawClient

TOPIC, CLIENT_METRICS, GROUP = 2, 16, 32
SET, DELETE = 0, 1
OF_THE_GROUP, DEFAULT = 8, 5


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap) as raw:
        yield raw


def alter(client: RawClient, group: str, changes: Mapping[str, str | None], *, validate_only: bool = False) -> Any:
    configs = tuple(
        AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        for name, value in changes.items()
    )
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
    return client.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only), 1).responses[0]


def replace_all(client: RawClient, group: str, texts: Mapping[str, str]) -> Any:
    configs = tuple(ReplacedConfig(name=name, value=value) for name, value in texts.items())
    resource = ReplacedResource(resource_type=GROUP, resource_name=group, configs=configs)
    return client.call(AlterConfigsRequest(resources=(resource,), validate_only=False), 2).responses[0]


def describe(client: RawClient, group: str, keys: tuple[str, ...] | None = None) -> Any:
    resource = DescribeConfigsResource(resource_type=GROUP, resource_name=group, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True, include_documentation=True)
    return client.call(request, 4).results[0]


def values(client: RawClient, group: str) -> dict[str, tuple[str, int]]:
    return {config.name: (config.value, config.config_source) for config in describe(client, group).configs}


def heartbeat(client: RawClient, group: str, topic: str) -> Any:
    client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=(group,)), 6)
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=(topic,),
        topic_partitions=(),
    )
    reply = client.call(request, 1)
    while reply.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        reply = client.call(request, 1)
    return reply


def test_a_group_takes_the_brokers_settings_until_it_has_its_own(client: RawClient, topic: str) -> None:
    before = values(client, topic)
    code = alter(client, topic, {"consumer.session.timeout.ms": "50000"}).error_code
    after = values(client, topic)

    assert code == ErrorCode.NONE
    assert before == {
        "consumer.assignment.interval.ms": ("0", DEFAULT),
        "consumer.heartbeat.interval.ms": ("5000", DEFAULT),
        "consumer.session.timeout.ms": ("45000", DEFAULT),
        "errors.deadletterqueue.copy.record.enable": ("false", DEFAULT),
        "errors.deadletterqueue.topic.name": ("", DEFAULT),
        "headrace.share.backoff.ms": ("0", DEFAULT),
        "headrace.share.breaker.pause.ms": ("60000", DEFAULT),
        "headrace.share.breaker.percent": ("0", DEFAULT),
        "headrace.share.breaker.records": ("100", DEFAULT),
        "headrace.share.breaker.resumed.ms": ("0", DEFAULT),
        "headrace.share.paused": ("false", DEFAULT),
        "share.auto.offset.reset": ("latest", DEFAULT),
        "share.delivery.count.limit": ("5", DEFAULT),
        "share.heartbeat.interval.ms": ("5000", DEFAULT),
        "share.isolation.level": ("read_uncommitted", DEFAULT),
        "share.partition.max.record.locks": ("2000", DEFAULT),
        "share.record.lock.duration.ms": ("30000", DEFAULT),
        "share.renew.acknowledge.enable": ("true", DEFAULT),
        "share.session.timeout.ms": ("45000", DEFAULT),
    }
    assert after == before | {"consumer.session.timeout.ms": ("50000", OF_THE_GROUP)}


def test_a_groups_setting_names_the_brokers_as_its_synonym(client: RawClient, topic: str) -> None:
    alter(client, topic, {"consumer.session.timeout.ms": "50000"})

    (config,) = describe(client, topic, ("consumer.session.timeout.ms",)).configs

    assert [(origin.name, origin.value, origin.source) for origin in config.synonyms] == [
        ("consumer.session.timeout.ms", "50000", OF_THE_GROUP),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT),
    ]
    assert not config.read_only
    assert config.documentation


def test_members_hear_of_a_groups_new_interval_with_their_next_heartbeat(client: RawClient, topic: str) -> None:
    first = heartbeat(client, topic, topic)
    alter(client, topic, {"consumer.heartbeat.interval.ms": "7000"})
    second = heartbeat(client, topic, topic)
    alter(client, topic, {"consumer.heartbeat.interval.ms": None})
    third = heartbeat(client, topic, topic)

    intervals = [reply.heartbeat_interval_ms for reply in (first, second, third)]
    assert intervals == [5000, 7000, 5000]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"consumer.session.timeout.ms": "44999"}, "group.consumer.min.session.timeout.ms"),
        ({"consumer.session.timeout.ms": "60001"}, "group.consumer.max.session.timeout.ms"),
        ({"consumer.heartbeat.interval.ms": "4999"}, "group.consumer.min.heartbeat.interval.ms"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "group.consumer.max.heartbeat.interval.ms"),
        ({"consumer.assignment.interval.ms": "15001"}, "group.consumer.max.assignment.interval.ms"),
        ({"consumer.assignment.interval.ms": "-1"}, "minimum"),
        ({"consumer.session.timeout.ms": "soon"}, "soon"),
        ({"consumer.session.timeout": "50000"}, "did you mean consumer.session.timeout.ms"),
    ],
)
def test_a_setting_that_no_group_may_have_is_refused_and_nothing_changes(
    client: RawClient, topic: str, changes: dict[str, str], names: str
) -> None:
    answer = alter(client, topic, {"consumer.assignment.interval.ms": "5"} | changes)

    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert names in answer.error_message
    assert {source for _, source in values(client, topic).values()} == {DEFAULT}


def test_validating_changes_nothing(client: RawClient, topic: str) -> None:
    answer = alter(client, topic, {"consumer.session.timeout.ms": "50000"}, validate_only=True)

    assert answer.error_code == ErrorCode.NONE
    assert values(client, topic)["consumer.session.timeout.ms"] == ("45000", DEFAULT)


def test_replacing_all_settings_of_a_group_removes_those_not_named(client: RawClient, topic: str) -> None:
    alter(client, topic, {"consumer.session.timeout.ms": "50000"})

    answer = replace_all(client, topic, {"consumer.heartbeat.interval.ms": "6000"})

    assert answer.error_code == ErrorCode.NONE
    assert values(client, topic)["consumer.session.timeout.ms"] == ("45000", DEFAULT)
    assert values(client, topic)["consumer.heartbeat.interval.ms"] == ("6000", OF_THE_GROUP)


def test_there_are_no_settings_of_all_groups(client: RawClient) -> None:
    assert alter(client, "", {"consumer.session.timeout.ms": "50000"}).error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, "").error_code == ErrorCode.INVALID_REQUEST


def test_only_groups_with_settings_are_listed_as_resources(client: RawClient, topic: str) -> None:
    odd = f"{topic}/with a slash, % and ü"
    alter(client, odd, {"consumer.session.timeout.ms": "50000"})

    listed = client.call(ListConfigResourcesRequest(resource_types=(GROUP,)), 1)
    alter(client, odd, {"consumer.session.timeout.ms": None})
    later = client.call(ListConfigResourcesRequest(resource_types=(GROUP,)), 1)

    assert (GROUP, odd) in {(resource.resource_type, resource.resource_name) for resource in listed.config_resources}
    assert odd not in {resource.resource_name for resource in later.config_resources}


def test_a_groups_settings_survive_a_restart_and_are_in_effect_after_it(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker, RawClient(broker.bootstrap) as client:
        alter(client, "group", {"consumer.heartbeat.interval.ms": "7000"})

    with Broker(data=tmp_path) as broker, RawClient(broker.bootstrap) as client:
        assert values(client, "group")["consumer.heartbeat.interval.ms"] == ("7000", OF_THE_GROUP)
        assert heartbeat(client, "group", "topic").heartbeat_interval_ms == 7000
