"""Clients are asked for their own metrics and tell them, over the wire (KIP-714): what is taken, and what is refused how."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from headrace.model.errors import ErrorCode
from headrace.records.compression import CODEC_IDS, CODEC_NAMES, compress
from headrace.testing import Broker
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.list_config_resources import ListConfigResourcesRequest
from headrace.wire.messages.push_telemetry import PushTelemetryRequest
from tests.support.metrics import AT_ANY_PORT, Watch
from tests.support.otlp import gauge, label, metrics_data, point, total
from tests.support.raw import RawClient
from tests.support.waiting import until

CLIENT_METRICS, CLIENT_METRICS_SOURCE, DEFAULT_SOURCE = 16, 7, 5
MAX_BYTES = 2000
TOLD = metrics_data(gauge("org.apache.kafka.producer.queue", point(2.5, label("topic", "t"))), total("sent", point(7)))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={**AT_ANY_PORT, "telemetry.max.bytes": MAX_BYTES}) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap, client_id="shop") as raw:
        raw.call(ApiVersionsRequest(client_software_name="my-kafka", client_software_version="1.2"), 3)
        yield raw


def alter(client: RawClient, name: str, **texts: str | None) -> tuple[ErrorCode, str | None]:
    configs = tuple(
        AlterableConfig(name=key.replace("_", "."), config_operation=1 if text is None else 0, value=text)
        for key, text in texts.items()
    )
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
    (answer,) = client.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1).responses
    return ErrorCode(answer.error_code), answer.error_message


@pytest.fixture
def subscribed(client: RawClient) -> Iterator[RawClient]:
    """Somebody wants everything of everybody, once an hour."""
    assert alter(client, "all", metrics="*", interval_ms="3600000")[0] is ErrorCode.NONE
    yield client
    alter(client, "all", metrics=None, interval_ms=None, match=None)


def asked(client: RawClient, instance: UUID | None = None) -> Any:
    return client.call(GetTelemetrySubscriptionsRequest(client_instance_id=instance or UUID(int=0)), 0)


def push(client: RawClient, told: Any, data: bytes = TOLD, codec: str = "zstd", **others: Any) -> ErrorCode:
    given = {
        "client_instance_id": told.client_instance_id,
        "subscription_id": told.subscription_id,
        "terminating": False,
        "compression_type": CODEC_IDS[codec],
        "metrics": compress(codec, data),
        **others,
    }
    return ErrorCode(client.call(PushTelemetryRequest(**given), 0).error_code)


def test_a_client_gets_a_number_and_is_told_what_is_wanted(subscribed: RawClient) -> None:
    told = asked(subscribed)

    assert told.error_code == ErrorCode.NONE
    assert told.client_instance_id.version == 4
    assert told.requested_metrics == ("*",)
    assert told.telemetry_max_bytes == MAX_BYTES
    assert [CODEC_NAMES[codec] for codec in told.accepted_compression_types] == ["zstd", "lz4", "gzip", "snappy"]
    assert told.push_interval_ms == 300_000  # nobody is asked more rarely


def test_without_subscriptions_nothing_is_wanted(client: RawClient) -> None:
    told = asked(client)

    assert (told.error_code, told.requested_metrics, told.push_interval_ms) == (ErrorCode.NONE, (), 300_000)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_what_it_tells_is_shown_whatever_it_is_packed_with(broker: Broker, subscribed: RawClient, codec: str) -> None:
    told, watch = asked(subscribed), Watch(broker)
    assert push(subscribed, told, codec=codec) is ErrorCode.NONE

    named = {"client_id": "shop", "client_instance": told.client_instance_id}
    assert watch.moved("headrace_client_metric", metric="producer.queue", topic="t", **named) == 2.5
    assert watch.moved("headrace_client_counter_total", metric="sent", **named) == 7
    assert watch.moved("headrace_client_telemetry_pushes_total", outcome="accepted") == 1
    assert watch.moved("headrace_client_telemetry_series") == 2


def test_who_comes_too_early_is_told_so_and_not_heard(broker: Broker, subscribed: RawClient) -> None:
    watch, told = Watch(broker), asked(subscribed)
    assert asked(subscribed, told.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(subscribed, told, TOLD) is ErrorCode.NONE

    assert push(subscribed, told, metrics_data(gauge("late", point(1)))) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert watch.now("headrace_client_metric", metric="late") == 0
    assert watch.moved("headrace_client_telemetry_instances") == 1
    assert watch.moved("headrace_client_telemetry_pushes_total", outcome="THROTTLING_QUOTA_EXCEEDED") == 1


def test_what_was_wanted_before_is_not_taken_and_asking_anew_helps_at_once(subscribed: RawClient) -> None:
    told = asked(subscribed)
    assert push(subscribed, told, subscription_id=told.subscription_id + 1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID

    assert asked(subscribed, told.client_instance_id).subscription_id == told.subscription_id


def test_when_the_subscriptions_change_everybody_is_asked_anew(broker: Broker, subscribed: RawClient) -> None:
    told = asked(subscribed)
    assert push(subscribed, told) is ErrorCode.NONE
    alter(subscribed, "more", metrics="org.a,org.b", interval_ms="100", match="client_software_name=my-.*,client_id=sh.p")
    alter(subscribed, "all", metrics="org.c")
    until(lambda: broker.run(lambda real: "more" in real.image.client_metrics))

    assert push(subscribed, told) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    again = asked(subscribed, told.client_instance_id)
    alter(subscribed, "more", metrics=None, interval_ms=None, match=None)
    assert (again.requested_metrics, again.push_interval_ms) == (("org.a", "org.b", "org.c"), 100)
    assert Watch(broker).now("headrace_client_metric", client_instance=told.client_instance_id) == 2.5


def test_a_last_push_may_come_early_and_is_the_last(subscribed: RawClient) -> None:
    told = asked(subscribed)
    assert push(subscribed, told) is ErrorCode.NONE
    assert push(subscribed, told, terminating=True) is ErrorCode.NONE

    assert push(subscribed, told, terminating=True) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("codec", [-1, 5, 100])
def test_a_compression_nobody_knows_is_refused(subscribed: RawClient, codec: int) -> None:
    assert push(subscribed, asked(subscribed), compression_type=codec) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("instance", [UUID(int=0), UUID(int=1)])
def test_a_client_without_a_number_is_refused(subscribed: RawClient, instance: UUID) -> None:
    assert push(subscribed, asked(subscribed), client_instance_id=instance) is ErrorCode.INVALID_REQUEST


def test_a_broker_that_never_heard_of_a_client_asks_it_anew(subscribed: RawClient) -> None:
    told = asked(subscribed)

    assert push(subscribed, told, client_instance_id=uuid4()) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID


def test_too_much_is_refused_before_it_is_unpacked(subscribed: RawClient) -> None:
    assert push(subscribed, asked(subscribed), metrics=bytes(MAX_BYTES + 1)) is ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("codec", [name for name in CODEC_NAMES if name != "none"])
def test_what_would_unpack_to_too_much_is_refused(subscribed: RawClient, codec: str) -> None:
    bomb = compress(codec, bytes(MAX_BYTES * 20))
    assert len(bomb) < MAX_BYTES

    found = push(subscribed, asked(subscribed), codec=codec, metrics=bomb)
    assert found is ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("data", [b"\x0b", b"\xff" * 20, TOLD[:-1]])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_what_cannot_be_read_is_refused(subscribed: RawClient, data: bytes, codec: str) -> None:
    assert push(subscribed, asked(subscribed), data, codec=codec) is ErrorCode.INVALID_RECORD
    assert push(subscribed, asked(subscribed), codec="zstd", metrics=data) is ErrorCode.INVALID_RECORD


def test_series_beyond_the_limit_are_counted_and_not_kept(
    broker: Broker, subscribed: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.telemetry.instances.SERIES_PER_INSTANCE_MAX", 1)
    watch = Watch(broker)
    assert push(subscribed, asked(subscribed)) is ErrorCode.NONE

    assert watch.moved("headrace_client_telemetry_dropped_total") == 1
    assert watch.moved("headrace_client_telemetry_series") == 1


def described(client: RawClient, name: str) -> Any:
    resource = DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=None)
    return client.call(DescribeConfigsRequest(resources=(resource,)), 4).results[0]


def test_subscriptions_are_listed_and_described_and_go_with_their_last_setting(client: RawClient) -> None:
    alter(client, "some/name with spaces", interval_ms="500")
    listed = client.call(ListConfigResourcesRequest(), 0).config_resources
    assert [resource.resource_name for resource in listed] == ["some/name with spaces"]

    found = {config.name: (config.value, config.config_source) for config in described(client, "some/name with spaces").configs}
    assert found == {
        "metrics": ("", DEFAULT_SOURCE),
        "interval.ms": ("500", CLIENT_METRICS_SOURCE),
        "match": ("", DEFAULT_SOURCE),
    }
    alter(client, "some/name with spaces", interval_ms=None)
    assert client.call(ListConfigResourcesRequest(), 0).config_resources == ()


@pytest.mark.parametrize(
    ("texts", "error", "words"),
    [
        ({"interval_ms": "99"}, ErrorCode.INVALID_REQUEST, "below its minimum, 100"),
        ({"interval_ms": "3600001"}, ErrorCode.INVALID_REQUEST, "above its maximum"),
        ({"colour": "red"}, ErrorCode.INVALID_REQUEST, "colour"),
        ({"match": "colour=red"}, ErrorCode.INVALID_CONFIG, "client_software_name"),
        ({"match": "client_id=("}, ErrorCode.INVALID_CONFIG, "regular expression"),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG, "NAME=PATTERN"),
    ],
)
def test_a_wrong_subscription_is_refused_in_kafkas_words(
    client: RawClient, texts: dict[str, str | None], error: ErrorCode, words: str
) -> None:
    code, message = alter(client, "wrong", **texts)

    assert code is error
    assert words in (message or "")
    assert client.call(ListConfigResourcesRequest(), 0).config_resources == ()


def test_a_subscription_has_a_name(client: RawClient) -> None:
    assert alter(client, "", metrics="*")[0] is ErrorCode.INVALID_REQUEST
    assert described(client, "").error_code == ErrorCode.INVALID_REQUEST
