"""A topic that a client names is created beside the answer, as Kafka does: once, within bounds, and a failure is told once."""

import logging
from typing import Any

import pytest

from headrace.broker.administration import auto_creation
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.raw import RawClient, ask_until_created, batch, produce

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def name(client: RawClient, *topics: str) -> list[int]:
    named = tuple(MetadataRequestTopic(name=topic) for topic in topics)
    return [topic.error_code for topic in client.call(MetadataRequest(topics=named), 12).topics]


def test_the_first_answer_says_unknown_and_the_topic_is_usable_as_soon_as_it_is_seen() -> None:
    with Broker(settings={"num.partitions": 3}) as broker, RawClient(broker.bootstrap) as client:
        for number in range(20):
            assert name(client, f"t-{number}", "no good") == [UNKNOWN, ErrorCode.INVALID_TOPIC_EXCEPTION]

            assert len(ask_until_created(client, f"t-{number}").partitions) == 3
            answer = client.call(produce(f"t-{number}", batch(b"x")), 9).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NONE


def test_a_topic_that_is_named_many_times_is_created_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as broker, RawClient(broker.bootstrap) as client:
        real = broker.broker
        assert real is not None
        asked: list[str] = []
        create = real.cluster.create_topic

        async def counted(*arguments: Any, **options: Any) -> Any:
            asked.append("t")
            return await create(*arguments, **options)

        monkeypatch.setattr(real.cluster, "create_topic", counted)

        assert name(client, *["t"] * 50) == [UNKNOWN] * 50
        ask_until_created(client, "t")

        assert asked == ["t"]


def test_only_so_many_topics_are_under_way_and_the_rest_follow_when_they_are_named_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auto_creation, "NAMES_MAX", 3)
    with Broker() as broker, RawClient(broker.bootstrap) as client:
        topics = [f"t-{number}" for number in range(10)]

        assert name(client, *topics) == [UNKNOWN] * 10
        for topic in topics[:3]:
            ask_until_created(client, topic)

        made = broker.run(lambda real: set(real.image.topics))
        assert made == set(topics[:3])
        for topic in topics:
            ask_until_created(client, topic)


def test_a_topic_that_cannot_be_created_is_told_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    given = {"default.replication.factor": 2}
    with Broker(settings=given) as broker, RawClient(broker.bootstrap) as client:
        for _ in range(20):
            assert name(client, "t") == [UNKNOWN]

        told = [record.getMessage() for record in caplog.records if "was not created" in record.getMessage()]
        assert len(told) == 1
        assert told[0].startswith("topic 't', which a client named, was not created: ")
        assert broker.run(lambda real: real.supervisor.troubles()) == ()
