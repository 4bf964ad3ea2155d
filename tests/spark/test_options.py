"""What the options mean, and what a person is told who gets one wrong."""

from typing import Any

import pytest

from headrace.client.positions import EARLIEST, LATEST, Position
from headrace.model.identity import TopicPartition
from headrace.spark.errors import OptionError
from headrace.spark.options.options import (
    Assignment,
    SourceOptions,
    TopicNames,
    TopicPattern,
    sink_options,
    source_options,
)

BROKER = {"kafka.bootstrap.servers": "here:9092"}


def source(streaming: bool = False, **given: str) -> SourceOptions:
    options = BROKER | {name.replace("__", ".").lower(): value for name, value in given.items()}
    if not {"subscribe", "subscribepattern", "assign"} & options.keys():
        options["subscribe"] = "orders"
    return source_options(options, streaming=streaming)


def test_topics_are_subscribed_by_list_by_pattern_or_by_partition() -> None:
    assert source(subscribe="a, b").subscription == TopicNames(frozenset({"a", "b"}))
    assert source(subscribePattern="orders-.*").subscription == TopicPattern("orders-.*")
    assert source(assign='{"a": [0, 2]}').subscription == Assignment(frozenset({TopicPartition("a", 0), TopicPartition("a", 2)}))


def test_a_batch_starts_at_the_earliest_and_a_stream_at_the_latest_offset() -> None:
    assert source().starting is EARLIEST
    assert source(streaming=True).starting is LATEST


def test_one_timestamp_wins_over_timestamps_by_partition_and_these_over_offsets() -> None:
    by_partition = '{"orders": {"0": 5}}'

    assert source(startingOffsets=by_partition).starting == {TopicPartition("orders", 0): Position("offset", 5)}
    assert source(startingOffsets="earliest", startingOffsetsByTimestamp=by_partition).starting == {
        TopicPartition("orders", 0): Position("time", 5)
    }
    assert source(startingTimestamp="7", startingOffsetsByTimestamp=by_partition).starting == Position("time", 7)


def test_client_properties_pass_through_under_librdkafkas_names() -> None:
    options = source(kafka__sasl__username="me", kafka__fetch__max__wait__ms="7", kafka__max__poll__records="1")

    assert options.client["sasl.username"] == "me"
    assert options.client["fetch.wait.max.ms"] == "7"
    assert "max.poll.records" not in options.client


@pytest.mark.parametrize(
    ("name", "instead"),
    [("kafka.sasl.jaas.config", "kafka.sasl.username"), ("kafka.ssl.truststore.location", "kafka.ssl.ca.location")],
)
def test_how_java_signs_in_is_refused_with_the_options_to_use_instead(name: str, instead: str) -> None:
    jaas = 'ScramLoginModule required username="ann" password="hidden";'

    with pytest.raises(OptionError, match=f"option '{name}' cannot be set: it is the Java client's; set {instead}") as refused:
        source_options(BROKER | {"subscribe": "orders", name: jaas}, streaming=False)
    assert "hidden" not in str(refused.value)


def test_uncommitted_records_are_read_unless_the_isolation_level_says_otherwise() -> None:
    assert not source().read_committed
    assert source(kafka__isolation__level="read_committed").read_committed


def test_the_group_to_commit_to_is_given_with_or_without_the_prefix() -> None:
    assert source(group__id="mine").group_id == "mine"
    assert source(kafka__group__id="mine").group_id == "mine"
    assert "group.id" not in source(kafka__group__id="mine").client


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "exactly one of the options subscribe, subscribePattern and assign"),
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'?"),
        ({"maxOffsetPerTrigger": "5"}, "did you mean 'maxOffsetsPerTrigger'?"),
        ({"maxOffsetsPerTrigger": "many"}, "option 'maxOffsetsPerTrigger' is 'many', but it takes a whole number"),
        ({"minPartitions": "0"}, "option 'minPartitions' is 0, but it must be at least 1"),
        ({"failOnDataLoss": "yes"}, "option 'failOnDataLoss' is 'yes', but it takes true or false"),
        ({"startingOffsets": "first"}, "option 'startingOffsets' is 'first', but it takes earliest, latest or JSON"),
        ({"startingOffsets": "{"}, "which is not JSON"),
        ({"startingOffsets": '{"a": {"x": 1}}'}, "option 'startingOffsets' has x: 1 for topic 'a'"),
        ({"startingOffsets": "latest"}, "a batch read that starts there reads nothing"),
        ({"endingOffsets": "earliest"}, "a read that ends there reads nothing"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "from which nothing would be read"),
        ({"maxTriggerDelay": "soon"}, "it takes a length of time such as 15m"),
        ({"subscribePattern": "("}, "which is not a regular expression"),
        ({"assign": '{"a": 1}'}, 'it takes JSON such as {"orders": [0, 1], "payments": [2]}'),
        ({"kafka__isolation__level": "committed"}, "it takes read_committed or read_uncommitted"),
        ({"kafka__auto__offset__reset": "earliest"}, "set startingOffsets instead"),
        ({"startingOffsetsByTimestampStrategy": "lates"}, "did you mean 'latest'?"),
        ({"kafka__bootstrap__servers": " "}, "option 'kafka.bootstrap.servers' is missing"),
    ],
)
def test_a_wrong_source_option_is_named_with_what_would_do(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as told:
        source(**given)

    assert said in str(told.value)


def test_a_stream_has_no_ending_offsets() -> None:
    with pytest.raises(OptionError, match="option 'endingOffsets' is for batch reads"):
        source(streaming=True, endingOffsets="latest")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"delivery": "exactly_once"}, "did you mean 'exactly-once'?"),
        ({"topics": "a"}, "did you mean 'topic'?"),
        ({"path": "a"}, "name the topic by the option 'topic'"),
        ({"kafka.acks": "1"}, "the sink promises delivery and needs all"),
        ({"kafka.transactional.id": "x"}, "set delivery to exactly-once"),
    ],
)
def test_a_wrong_sink_option_is_named_with_what_would_do(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as told:
        sink_options(BROKER | given)

    assert said in str(told.value)


def test_what_spark_adds_to_a_streaming_sinks_options_is_accepted() -> None:
    assert sink_options(BROKER | {"topic": "t", "checkpointlocation": "c", "queryname": "q"}).topic == "t"
