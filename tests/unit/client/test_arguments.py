"""Bad use is named at once, with what would have been right."""

import gc
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import headrace
from headrace import Backoff, Consumer, DeadLetters, InvalidArgument, Producer, Salted, TopicPartition, exactly_once
from headrace.client.arguments import (
    bootstrap_address,
    offsets_by_partition,
    seconds,
    several,
    timestamp_ms,
    topic_name,
    topic_partition,
)
from headrace.client.records.record import headers_for_sending

WRONG: Any = 5  # of a type that a checker would not let pass


@pytest.mark.parametrize(
    ("arguments", "named", "accepted"),
    [
        ({"acks": 2}, "acks=2", "'all', 0, 1"),
        ({"acks": True}, "acks=True", "'all', 0, 1"),
        ({"compression": "brotli"}, "compression='brotli'", "'none', 'gzip', 'snappy', 'lz4', 'zstd'"),
        ({"when_full": "drop"}, "when_full='drop'", "'block', 'raise'"),
        ({"linger": 1e9}, "linger=1000000000.0", "seconds of at least 0 and at most 900"),
        ({"delivery_timeout": 1e9}, "delivery_timeout=1000000000.0", "at most 2147483"),
        ({"retry_backoff": 301}, "retry_backoff=301", "at most 300"),
        ({"batch_bytes": 10**12}, "batch_bytes=1000000000000", "at most 1000000000"),
        ({"linger": -1}, "linger=-1", "seconds of at least 0"),
        ({"batch_messages": 0}, "batch_messages=0", "at least 1"),
        ({"buffer_messages": "many"}, "buffer_messages='many'", "a whole number"),
        ({"acks": 1, "idempotent": True}, "acks=1", "'all'"),
        ({"acks": 1, "transactional_id": "t"}, "acks=1", "acks='all'"),
        ({"values": "yaml"}, "values='yaml'", "bytes, str, 'json'"),
        ({"keys": (str,)}, "keys=", "a pair"),
        ({"partitioner": "random"}, "partitioner='random'", "KeyHash"),
        ({"delivery_timeout": 0}, "delivery_timeout=0", "seconds of at least"),
        ({"retry_backoff": 2, "retry_backoff_max": 1}, "retry_backoff=2", "at most"),
        ({"bootstrap": "nowhere:port"}, "bootstrap='nowhere:port'", "host:port"),
        ({"bootstrap": ["a:1", 5]}, "bootstrap=5", "host:port"),
        ({"bootstrap": 9092}, "bootstrap=9092", "host:port"),
        ({"bootstrap": "http://here:9092/"}, "bootstrap='http://here:9092/' begins with http://", "'here:9092'"),
        ({"bootstrap": []}, "bootstrap=[]", "host:port"),
        ({"transactional_id": 5}, "transactional_id=5", "a name"),
        ({"transactional_id": ""}, "transactional_id=''", "a name"),
        ({"client_id": 7}, "client_id=7", "a name"),
        ({"librdkafka": "fast"}, "librdkafka='fast'", "a dict of"),
        ({"librdkafka": {"no.such.thing": 1}}, "no.such.thing", ""),
    ],
)
def test_a_producer_names_the_argument_it_does_not_accept(arguments: dict[str, Any], named: str, accepted: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Producer(**{"bootstrap": "127.0.0.1:1", **arguments})

    assert named in str(caught.value)
    assert accepted in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "named", "accepted"),
    [
        ({"topics": ""}, "topics=''", "letters, digits"),
        ({"topics": []}, "topics=[]", "a topic name"),
        ({"topics": ["a", TopicPartition("b", 0)]}, "topics=", "a list of names"),
        ({"topics": 7}, "topics=7", "a topic name"),
        ({"start": "yesterday"}, "start='yesterday'", "'earliest', 'latest', an offset as a whole number, or a datetime"),
        ({"start": -1}, "start=-1", "an offset"),
        ({"delivery": "once"}, "delivery='once'", "'at_most_once', 'at_least_once', 'exactly_once'"),
        ({"delivery": "exactly_once"}, "exactly_once", "needs a group"),
        ({"group": ""}, "group=''", "a name"),
        ({"group": "g", "topics": [TopicPartition("t", 0)]}, "single partitions", "names of topics"),
        ({"group": "g", "assignor": "sticky"}, "assignor='sticky'", "'cooperative-sticky', 'range', 'roundrobin'"),
        ({"group": "g", "protocol": "new"}, "protocol='new'", "'classic', 'consumer'"),
        ({"isolation": "dirty"}, "isolation='dirty'", "'read_committed', 'read_uncommitted'"),
        ({"on_assigned": 5}, "on_assigned=5", "a plain"),
        ({"commit_interval": "often"}, "commit_interval='often'", "seconds"),
        ({"instance_id": "i"}, "instance_id='i'", "None"),
        ({"group": "g", "instance_id": 3}, "instance_id=3", "a name"),
        ({"dead_letters": 5}, "dead_letters=5", "DeadLetters(…), or None"),
    ],
)
def test_a_consumer_names_the_argument_it_does_not_accept(arguments: dict[str, Any], named: str, accepted: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Consumer(**{"topics": "t", "bootstrap": "127.0.0.1:1", **arguments})

    assert named in str(caught.value)
    assert accepted in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"attempts": 0}, "attempts=0"),
        ({"backoff": "slow"}, "backoff='slow'"),
        ({"topic": "{nothing}"}, "{nothing}"),
        ({"topic": "a b"}, "a b"),
        ({"retry": 5}, "retry=5"),
        ({"producer": "mine"}, "producer='mine'"),
    ],
)
def test_dead_letters_name_the_argument_they_do_not_accept(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        DeadLetters(**arguments)

    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda: Backoff(first=-1), "first=-1"),
        (lambda: Backoff(first=5, longest=1), "longest=1 is not a duration; accepted: seconds of at least 5"),
        (lambda: Backoff(factor=0), "factor=0 is not accepted; accepted: a number of at least 1"),
        (lambda: Backoff(jitter=2), "jitter=2 is not accepted; accepted: a number of at least 0 and at most 1"),
        (lambda: Salted(2, only=WRONG), "only=5 is not accepted; accepted: a list"),
        (lambda: exactly_once(WRONG, WRONG), "consumer=5 is not accepted; accepted: a Consumer with delivery='exactly_once'"),
        (lambda: topic_partition("partition", "t"), "partition='t' is not accepted; accepted: TopicPartition(topic, partition)"),
        (lambda: offsets_by_partition("offsets", 5), "offsets=5 is not accepted; accepted: a dict of TopicPartition"),
        (lambda: offsets_by_partition("offsets", {TopicPartition("t", 0): -3}), "offsets=-3"),
        (lambda: several("values", "abc", "values"), "values='abc' is not accepted; accepted: a list"),
        (lambda: headers_for_sending(WRONG, None), "headers=5 is not accepted; accepted: a list"),
    ],
)
def test_the_others_name_what_they_do_not_accept(use: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        use()

    assert said in str(caught.value)


@pytest.mark.slow
def test_a_consumer_that_could_not_be_opened_leaves_nothing_behind(recwarn: pytest.WarningsRecorder) -> None:
    gc.collect()  # what other tests left behind is none of its
    recwarn.clear()
    with pytest.raises(TypeError, match="bogus"):
        Consumer("t", bogus=1)  # type: ignore[call-arg]
    gc.collect()

    assert [str(each.message) for each in recwarn] == []


def test_an_invalid_argument_is_a_value_error_too() -> None:
    assert issubclass(InvalidArgument, ValueError)
    assert issubclass(headrace.BrokerTimeout, TimeoutError)
    assert issubclass(headrace.Closed, RuntimeError)
    assert issubclass(headrace.TopicNotFound, LookupError)


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a/b", "ä", None, 3])
def test_what_is_no_topic_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidArgument):
        topic_name("topic", name)


def test_addresses_come_from_the_argument_then_the_environment_then_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", "elsewhere:1234")

    assert bootstrap_address("here:1") == "here:1"
    assert bootstrap_address(["a:1", "b:2"]) == "a:1,b:2"
    assert bootstrap_address("host") == "host:9092"
    assert bootstrap_address("PLAINTEXT://here:1") == "PLAINTEXT://here:1"
    assert bootstrap_address(None) == "elsewhere:1234"
    monkeypatch.delenv("HEADRACE_BOOTSTRAP")
    assert bootstrap_address(None) == "127.0.0.1:9092"


def test_durations_and_moments_come_in_the_forms_python_has_for_them() -> None:
    assert seconds("x", timedelta(minutes=2)) == 120
    assert seconds("x", 0.5) == 0.5
    assert timestamp_ms("x", datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)) == 2000
    for wrong in (True, float("nan"), float("inf"), "1"):
        with pytest.raises(InvalidArgument):
            seconds("x", wrong)
    with pytest.raises(InvalidArgument):
        timestamp_ms("x", 1.5)
