"""Settings over the wire, answered as Kafka answers: what is refused, with which code, and where a value comes from."""

from collections.abc import Iterator

import pytest

from headrace.model.compatibility_settings import COMPATIBILITY_SETTINGS
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.raw import RawClient

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = range(3)
TOPIC_SOURCE, OWN_SOURCE, ALL_BROKERS_SOURCE, START_SOURCE, DEFAULT_SOURCE = range(1, 6)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap) as connected:
        yield connected


def create(client: RawClient, name: str, **configs: str) -> tuple[int, str | None]:
    given = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items())
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=given)
    result = client.call(CreateTopicsRequest(topics=(topic,)), 7).topics[0]
    return result.error_code, result.error_message


def change(client: RawClient, kind: int, resource: str, name: str, value: str | None, operation: int = SET) -> int:
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    asked = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=(config,))
    return int(client.call(IncrementalAlterConfigsRequest(resources=(asked,), validate_only=False), 1).responses[0].error_code)


def names(client: RawClient, kind: int, resource: str) -> list[str]:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=resource, configuration_keys=None)
    return [config.name for config in client.call(DescribeConfigsRequest(resources=(asked,)), 4).results[0].configs]


def described(client: RawClient, kind: int, resource: str, name: str) -> DescribeConfigsResourceResult:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=resource, configuration_keys=(name,))
    request = DescribeConfigsRequest(resources=(asked,), include_synonyms=True, include_documentation=True)
    (found,) = client.call(request, 4).results[0].configs
    assert isinstance(found, DescribeConfigsResourceResult)
    return found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", "14"),
        ("segment.bytes", "1048575"),
        ("segment.ms", "0"),
        ("segment.index.bytes", "3"),
        ("flush.messages", "0"),
        ("max.compaction.lag.ms", "0"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.insync.replicas", "0"),
        ("max.message.bytes", "-1"),
        ("retention.ms", "-2"),
    ],
)
def test_values_that_kafka_refuses_of_a_topic_are_refused(client: RawClient, topic: str, name: str, value: str) -> None:
    code, message = create(client, topic, **{name: value})

    assert code == ErrorCode.INVALID_CONFIG
    assert name in (message or "")
    assert create(client, topic)[0] == 0
    assert change(client, TOPIC, topic, name, value) == ErrorCode.INVALID_CONFIG


def test_a_lag_of_compaction_that_is_longer_at_the_least_than_at_the_most_is_refused(client: RawClient, topic: str) -> None:
    assert create(client, topic, max_compaction_lag_ms="10", min_compaction_lag_ms="20")[0] == ErrorCode.INVALID_CONFIG
    assert create(client, topic, max_compaction_lag_ms="10")[0] == 0
    assert change(client, TOPIC, topic, "min.compaction.lag.ms", "20") == ErrorCode.INVALID_CONFIG


def test_small_segments_are_for_tests_and_not_listed(client: RawClient, topic: str) -> None:
    assert create(client, topic, internal_segment_bytes="300")[0] == 0
    plain = topic + "-plain"
    assert create(client, plain)[0] == 0
    asked = DescribeConfigsResource(resource_type=TOPIC, resource_name=plain, configuration_keys=None)

    listed = client.call(DescribeConfigsRequest(resources=(asked,)), 4).results[0].configs

    assert "internal.segment.bytes" not in {config.name for config in listed}


def test_a_topic_keeps_what_an_older_version_accepted_and_may_be_changed(broker: Broker, client: RawClient, topic: str) -> None:
    create(client, topic)

    async def as_before() -> None:
        assert broker.broker is not None
        await broker.broker.cluster.alter_topic_configs(topic, lambda before: {**before, "segment.bytes": "2000"})

    broker.call(as_before())

    assert broker.run(lambda real: real.parts.topic_configs.of(topic).segment_bytes) == 2000
    assert change(client, TOPIC, topic, "retention.ms", "5000") == 0
    assert change(client, TOPIC, topic, "segment.bytes", "2001") == ErrorCode.INVALID_CONFIG


# What follows was asked of Apache Kafka 4.3.1, too, which answers the same.


@pytest.mark.parametrize(("resource", "source"), [("", ALL_BROKERS_SOURCE), ("1", OWN_SOURCE)])
def test_a_broker_setting_that_nobody_knows_is_stored_and_shown_without_its_value(
    client: RawClient, resource: str, source: int
) -> None:
    assert change(client, BROKER, resource, "nothing.of.ours", "7") == 0

    found = described(client, BROKER, resource, "nothing.of.ours")
    assert (found.value, found.is_sensitive, found.read_only, found.config_type) == (None, True, True, 0)
    assert (found.config_source, found.documentation) == (source, None)
    assert [(one.name, one.value, one.source) for one in found.synonyms] == [("nothing.of.ours", None, source)]
    assert change(client, BROKER, resource, "nothing.of.ours", "x", APPEND) == ErrorCode.INVALID_CONFIG
    assert change(client, BROKER, resource, "nothing.of.ours", None, DELETE) == 0
    assert "nothing.of.ours" not in names(client, BROKER, resource)


@pytest.mark.parametrize("name", ["listener.name.plaintext.plain.sasl.jaas.config", "sasl.jaas.config"])
def test_what_kafka_takes_for_one_broker_is_taken_for_one_broker(client: RawClient, name: str) -> None:
    assert change(client, BROKER, "1", name, "x") == 0
    assert change(client, BROKER, "1", name, None, DELETE) == 0


def test_what_is_stored_without_effect_is_said_in_the_log(client: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("nothing.of.ours", "max.connections.per.ip"):
        change(client, BROKER, "", name, "7")
        change(client, BROKER, "", name, None, DELETE)

    said = [record.getMessage() for record in caplog.records]
    assert "the broker setting nothing.of.ours is stored and has no effect" in said
    assert "the broker setting max.connections.per.ip is stored and has no effect" in said


def test_all_brokers_together_show_what_is_set_for_all_of_them_and_nothing_else(client: RawClient) -> None:
    assert names(client, BROKER, "") == []
    change(client, BROKER, "", "num.partitions", "2")

    assert names(client, BROKER, "") == ["num.partitions"]
    assert described(client, BROKER, "", "num.partitions").read_only is False
    change(client, BROKER, "", "num.partitions", None, DELETE)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("remote.storage.enable", "false", ErrorCode.NONE),
        ("remote.storage.enable", "true", ErrorCode.INVALID_CONFIG),
        ("local.retention.ms", "5", ErrorCode.NONE),
        ("local.retention.bytes", "-3", ErrorCode.INVALID_CONFIG),
        ("remote.log.copy.disable", "true", ErrorCode.NONE),
        ("compression.gzip.level", "3", ErrorCode.NONE),
        ("compression.gzip.level", "0", ErrorCode.INVALID_CONFIG),
        ("compression.zstd.level", "99", ErrorCode.INVALID_CONFIG),
        ("segment.ms", " 7 ", ErrorCode.NONE),
        ("segment.ms", "1_0", ErrorCode.INVALID_CONFIG),
        ("message.format.version", "3.0", ErrorCode.INVALID_CONFIG),
        ("nothing.of.ours", "7", ErrorCode.INVALID_CONFIG),
    ],
)
def test_topics_take_kafkas_settings_and_no_others(client: RawClient, topic: str, name: str, value: str, code: int) -> None:
    create(client, topic)

    assert change(client, TOPIC, topic, name, value) == code


@pytest.mark.parametrize("setting", COMPATIBILITY_SETTINGS, ids=lambda setting: setting.name)
def test_settings_of_kafkas_that_mean_nothing_here_are_taken_kept_and_marked(client: RawClient, setting: object) -> None:
    name = setting.name  # type: ignore[attr-defined]
    value = setting.format(setting.default) or "x"  # type: ignore[attr-defined]

    assert change(client, BROKER, "", name, value) == 0

    found = described(client, BROKER, "1", name)
    assert (found.value, found.config_source, found.read_only) == (value, ALL_BROKERS_SOURCE, False)
    assert (found.documentation or "").startswith("Accepted for compatibility")
    assert change(client, BROKER, "", name, None, DELETE) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listeners", "h:1"),  # read at the start
        ("node.id", "7"),
        ("log.retention.ms", "soon"),  # not a number
        ("num.partitions", "0"),  # out of range
        ("num.io.threads", "1_0"),
        ("max.connections", "11111111111"),  # beyond an int
        ("process.roles", "broker"),  # Kafka's, read at the start
        ("ssl.keystore.location", "/x"),  # Kafka's, for a listener only
        ("sasl.jaas.config", "x"),  # Kafka's, for one broker only
        ("listener.name.plaintext.ssl.keystore.type", "JKS"),
    ],
)
def test_what_a_running_broker_does_not_take_is_an_invalid_request(client: RawClient, name: str, value: str) -> None:
    assert change(client, BROKER, "", name, value) == ErrorCode.INVALID_REQUEST


def test_min_insync_replicas_tells_where_its_value_comes_from(topic: str) -> None:
    with Broker(settings={"min.insync.replicas": 2}) as broker, RawClient(broker.bootstrap) as client:
        create(client, topic)

        def seen() -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
            found = described(client, TOPIC, topic, "min.insync.replicas")
            return found.value, found.config_source, [(one.name, one.value, one.source) for one in found.synonyms]

        name = "min.insync.replicas"
        assert seen() == ("2", START_SOURCE, [(name, "2", START_SOURCE), (name, "1", DEFAULT_SOURCE)])
        assert change(client, BROKER, "", name, "3") == 0
        assert seen()[:2] == ("3", ALL_BROKERS_SOURCE)
        assert change(client, TOPIC, topic, name, "1") == 0
        assert seen()[:2] == ("1", TOPIC_SOURCE)
        assert change(client, TOPIC, topic, name, None, DELETE) == 0
        assert change(client, BROKER, "", name, None, DELETE) == 0
        assert seen()[:2] == ("2", START_SOURCE)
    with Broker() as broker, RawClient(broker.bootstrap) as client:
        create(client, topic)
        assert described(client, TOPIC, topic, "min.insync.replicas").config_source == DEFAULT_SOURCE
