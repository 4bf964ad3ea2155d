"""Faults on demand, the clock, the plugin: and how the SDK takes them."""

import asyncio
import time
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace import (
    Admin,
    AsyncProducer,
    BrokerError,
    BrokerTimeout,
    Consumer,
    DeadLetters,
    DeliveryFailed,
    DeliveryTimeout,
    Producer,
    Reject,
    TopicPartition,
)
from headrace.client.consumer.feed import feed_of
from headrace.testing import Api, Broker, ErrorCode

pytest_plugins = ["pytester"]


@pytest.fixture
def own() -> Iterator[Broker]:
    """A broker that only this test breaks."""
    with Broker() as broker:
        yield broker


def values(broker: Broker, topic: str) -> list[Any]:
    with Consumer[bytes, str](topic, bootstrap=broker.bootstrap, values=str) as consumer:
        return [record.value for record in consumer.to_end()]


@pytest.mark.parametrize(
    "fault",
    [
        {"error": ErrorCode.NOT_ENOUGH_REPLICAS},
        {"error": ErrorCode.NOT_LEADER_OR_FOLLOWER},
        {"disconnect": True},
        {"delay": 0.5},
        {"error": ErrorCode.REQUEST_TIMED_OUT, "delay": 0.2},
    ],
)
def test_a_producer_gets_over_what_passes_and_writes_each_record_once(own: Broker, fault: dict[str, Any]) -> None:
    with Producer(own.bootstrap, linger=0, retry_backoff=0.01, retry_backoff_max=0.05) as producer:
        producer.send("orders", "first").result(10)
        with own.faults.on(Api.PRODUCE, times=2, **fault) as struck:
            for number in range(5):
                producer.send("orders", str(number)).result(20)

    assert struck.hits == 2
    assert values(own, "orders") == ["first", "0", "1", "2", "3", "4"]


def test_a_reply_that_is_lost_is_not_a_record_written_twice(own: Broker) -> None:
    settings = {"socket.timeout.ms": 1000, "request.timeout.ms": 1000}
    with Producer(own.bootstrap, linger=0, retry_backoff=0.01, librdkafka=settings) as producer:
        producer.send("orders", "first").result(10)
        with own.faults.on(Api.PRODUCE, drop_reply=True, times=1) as lost:
            delivery = producer.send("orders", "second").result(20)

    assert lost.hits == 1
    assert delivery.offset == 1
    assert values(own, "orders") == ["first", "second"]


@pytest.fixture
def unsaid(own: Broker) -> Iterator[Producer]:
    """A producer whose next batch is written, and acknowledged without an offset: its reply is lost, and the answer to the second
    attempt says only that it is there already.  librdkafka does the same when a later batch is acknowledged first."""
    settings = {"socket.timeout.ms": 1000, "request.timeout.ms": 1000}
    with Producer(own.bootstrap, linger=0.05, retry_backoff=0.01, librdkafka=settings) as producer:
        producer.send("orders", "first").result(10)
        lost = own.faults.on(Api.PRODUCE, drop_reply=True, times=1)
        again = own.faults.on(Api.PRODUCE, error=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, times=1)
        yield producer
        assert (lost.hits, again.hits) == (1, 1)


def test_an_acknowledgement_without_an_offset_is_a_delivery_without_one(own: Broker, unsaid: Producer) -> None:
    assert unsaid.send("orders", "second").result(20)[:3] == ("orders", 0, None)
    assert unsaid.send("orders", "third").result(20).offset == 2
    assert values(own, "orders") == ["first", "second", "third"]


def test_of_many_those_acknowledged_without_an_offset_are_deliveries_without_one(own: Broker, unsaid: Producer) -> None:
    # One only: what librdkafka says of the others in a batch that "is there already" is wrong (see FINDINGS.md).
    assert [each.offset for each in unsaid.send_many("orders", ["a"]).result(20)] == [None]
    assert [each.offset for each in unsaid.send_many("orders", ["b", "c"]).result(20)] == [2, 3]
    assert values(own, "orders") == ["first", "a", "b", "c"]


def test_a_dead_letter_acknowledged_without_an_offset_is_parked_once(own: Broker, unsaid: Producer) -> None:
    def fails(record: Any) -> None:
        raise Reject("no")

    letters = DeadLetters("dead", producer=unsaid)
    with Consumer("orders", bootstrap=own.bootstrap, group="g", commit_interval=0.05) as consumer, Admin(own.bootstrap) as admin:
        admin.create_topic("dead")
        with consumer.on_message(fails, dead_letters=letters):
            deadline = time.monotonic() + 30
            while not admin.committed("g"):
                assert time.monotonic() < deadline
    assert values(own, "dead") == ["first"]


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_a_refusal_that_stays_fails_the_send_at_once(own: Broker, code: ErrorCode) -> None:
    with Producer(own.bootstrap, linger=0) as producer:
        producer.send("orders", "first").result(10)
        with own.faults.on(Api.PRODUCE, error=code), pytest.raises(DeliveryFailed, match="orders"):
            producer.send("orders", "x").result(10)


def test_a_broker_that_never_acknowledges_is_a_time_out_with_its_address(own: Broker) -> None:
    with (
        Producer(own.bootstrap, linger=0, delivery_timeout=1) as producer,
        own.faults.on(Api.PRODUCE, drop_reply=True),
        pytest.raises(DeliveryTimeout, match=own.bootstrap),
    ):
        producer.send("orders", "x").result(20)


@pytest.mark.parametrize(
    "fault",
    [
        {"error": ErrorCode.NOT_LEADER_OR_FOLLOWER},
        {"error": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        {"disconnect": True},
        {"delay": 0.3},
    ],
)
def test_a_reader_gets_over_what_passes(own: Broker, fault: dict[str, Any]) -> None:
    with Producer(own.bootstrap) as producer:
        producer.send_many("orders", [str(number) for number in range(50)])
    with own.faults.on(Api.FETCH, times=3, **fault) as struck:
        assert values(own, "orders") == [str(number) for number in range(50)]
        assert struck.hits >= 1


@pytest.mark.parametrize("api", [Api.JOIN_GROUP, Api.SYNC_GROUP, Api.OFFSET_FETCH, Api.FIND_COORDINATOR, Api.HEARTBEAT])
@pytest.mark.parametrize(
    "error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
)
@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
def test_a_group_forms_while_its_coordinator_moves(own: Broker, api: Api, error: ErrorCode, assignor: Any) -> None:
    with Producer(own.bootstrap) as producer:
        producer.send_many("orders", [str(number) for number in range(10)])
    own.faults.on(api, times=1, error=error)

    with Consumer[bytes, str](
        "orders", bootstrap=own.bootstrap, group="g", values=str, session_timeout=6, assignor=assignor
    ) as consumer:
        assert [record.value for record in consumer.batch(10, 20)] == [str(number) for number in range(10)]


@pytest.mark.parametrize(
    "api", [Api.JOIN_GROUP, Api.SYNC_GROUP, Api.OFFSET_FETCH, Api.FIND_COORDINATOR, Api.HEARTBEAT, Api.METADATA]
)
def test_a_group_forms_in_spite_of_a_lost_connection(own: Broker, api: Api) -> None:
    with Producer(own.bootstrap) as producer:
        producer.send_many("orders", [str(number) for number in range(10)])
    own.faults.on(api, times=1, disconnect=True)

    with Consumer[bytes, str]("orders", bootstrap=own.bootstrap, group="g", values=str, session_timeout=6) as consumer:
        assert [record.value for record in consumer.batch(10, 20)] == [str(number) for number in range(10)]


def test_a_commit_that_is_refused_raises_when_asked_for_by_hand(own: Broker) -> None:
    with Producer(own.bootstrap) as producer:
        producer.send("orders", "x")
    with Consumer("orders", bootstrap=own.bootstrap, group="g", commit_interval=100) as consumer:
        consumer.poll(10)
        with (
            own.faults.on(Api.OFFSET_COMMIT, error=ErrorCode.GROUP_AUTHORIZATION_FAILED),
            pytest.raises(BrokerError, match="commit offsets"),
        ):
            consumer.commit()
        consumer.commit()
        assert consumer.committed() == {TopicPartition("orders", 0): 1}


@pytest.mark.parametrize("api", [Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN])
def test_a_transaction_gets_over_what_passes(own: Broker, api: Api) -> None:
    own.faults.on(api, error=ErrorCode.COORDINATOR_NOT_AVAILABLE, times=1)

    with Producer(own.bootstrap, transactional_id="t", linger=0) as producer, producer.transaction() as transaction:
        transaction.send("orders", "x")

    assert values(own, "orders") == ["x"]


def test_an_admin_call_says_what_the_broker_said(own: Broker) -> None:
    with (
        Admin(own.bootstrap) as admin,
        own.faults.on(Api.CREATE_TOPICS, error=ErrorCode.POLICY_VIOLATION),
        pytest.raises(BrokerError, match="create topic 'orders'") as caught,
    ):
        admin.create_topic("orders")

    assert caught.value.code == ErrorCode.POLICY_VIOLATION


def test_an_admin_call_without_an_answer_is_a_time_out(own: Broker) -> None:
    with (
        Admin(own.bootstrap, timeout=1) as admin,
        own.faults.on(Api.CREATE_TOPICS, drop_reply=True),
        pytest.raises(BrokerTimeout, match=own.bootstrap),
    ):
        admin.create_topic("orders")


def test_a_fault_may_be_for_one_client_only(own: Broker) -> None:
    own.faults.on(Api.PRODUCE, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, client_id="unlucky")

    with Producer(own.bootstrap, linger=0) as producer:
        assert producer.send("orders", "x").result(10).offset == 0
    with Producer(own.bootstrap, linger=0, client_id="unlucky") as producer:
        assert isinstance(producer.send("orders", "x").exception(10), DeliveryFailed)
    own.faults.clear()
    with Producer(own.bootstrap, linger=0, client_id="unlucky") as producer:
        assert producer.send("orders", "x").result(10).offset == 1


@pytest.mark.parametrize("wrong", [{}, {"error": ErrorCode.NONE, "disconnect": True}, {"drop_reply": True, "disconnect": True}])
def test_a_fault_is_one_thing(own: Broker, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a fault is one of"):
        own.faults.on(Api.PRODUCE, **wrong)


@pytest.mark.parametrize(
    ("api", "wrong", "said"),
    [
        ("produce", {"disconnect": True}, "api='produce' is not accepted; accepted: Api.PRODUCE"),
        (Api.PRODUCE, {"error": "x"}, "error='x' is not accepted; accepted: ErrorCode"),
        (Api.PRODUCE, {"delay": "x"}, "delay='x' is not accepted; accepted: seconds"),
        (Api.PRODUCE, {"disconnect": True, "times": 0}, "times=0 is not accepted; accepted: a whole number of at least 1"),
    ],
)
def test_a_fault_that_could_never_strike_is_refused(own: Broker, api: Any, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        own.faults.on(api, **wrong)


def test_a_setting_that_is_misspelt_is_named_before_the_start() -> None:
    with pytest.raises(ValueError, match=r"there is no setting num\.partitonz; did you mean num\.partitions\?"):
        Broker(settings={"num.partitonz": 3})
    with (
        Broker(settings={"num.partitions": 3, "auto.create.topics.enable": True}) as broker,
        Producer(broker.bootstrap) as producer,
    ):
        assert producer.partition_count("t") == 3


def test_a_week_passes_in_a_moment(own: Broker) -> None:
    with Admin(own.bootstrap) as admin:
        admin.create_topic("orders", settings={"retention.ms": 86_400_000, "segment.ms": 3_600_000})
        with Producer(own.bootstrap) as producer:
            producer.send_many("orders", ["old"] * 10)
        own.housekeep()
        assert admin.offsets("orders", "earliest") == {0: 0}

        own.clock.advance(days=8)
        own.housekeep()

        assert admin.offsets("orders", "earliest") == {0: 10}


def test_a_clock_does_not_go_back(own: Broker) -> None:
    with pytest.raises(ValueError, match="does not go back"):
        own.clock.advance(-1)


def test_a_broker_starts_and_stops_inside_a_running_loop() -> None:
    async def main() -> None:
        with Broker() as broker:
            async with AsyncProducer(broker.bootstrap, linger=0) as producer:
                assert (await producer.send("orders", "x")).offset == 0

    asyncio.run(main())


def test_a_broker_is_ready_in_well_under_two_hundred_milliseconds() -> None:
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        with Broker():
            took.append(time.perf_counter() - begin)

    assert min(took) < 0.2


def test_the_plugin_gives_each_test_a_broker_and_a_topic(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from headrace import Admin, Consumer, Producer

        def test_one(headrace_broker, headrace_topic):
            with Producer(headrace_broker.bootstrap) as producer:
                producer.send(headrace_topic, "x")
            with Consumer(headrace_topic, bootstrap=headrace_broker.bootstrap) as consumer:
                assert [record.value for record in consumer.to_end()] == [b"x"]

        @pytest.mark.headrace(partitions=3, settings={"cleanup.policy": "compact"}, broker={"num.partitions": "7"})
        def test_two(headrace_broker, headrace_topic):
            with Admin(headrace_broker.bootstrap) as admin:
                assert list(admin.topics()) == [headrace_topic]
                assert len(admin.topic(headrace_topic).partitions) == 3
                assert admin.settings(headrace_topic)["cleanup.policy"].value == "compact"
            with Producer(headrace_broker.bootstrap) as producer:
                producer.send("made-by-itself", "x")
                producer.flush()
                assert producer.partition_count("made-by-itself") == 7
        """
    )
    # By its name only where it is not installed as an entry point, which would load it twice.
    installed = any(entry.name == "headrace" for entry in entry_points(group="pytest11"))
    named = [] if installed else ["-p", "headrace.testing.plugin"]
    pytester.runpytest_subprocess("-p", "no:cacheprovider", *named).assert_outcomes(passed=2)


def test_the_end_of_a_partition_is_asked_for_again_when_librdkafka_has_forgotten_it(
    own: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Producer(own.bootstrap) as producer:
        producer.send_many("orders", ["a", "b"])
    with Consumer("orders", bootstrap=own.bootstrap) as consumer:
        client = feed_of(consumer).reader.membership.client
        forgetful = Forgetful(client)
        monkeypatch.setattr(feed_of(consumer).reader.starting_point, "client", forgetful)

        assert [record.value for record in consumer.to_end()] == [b"a", b"b"]
        assert forgetful.forgot == 1


class Forgetful:
    """librdkafka as it is just after it has lost every broker: it does not know the partition when first asked."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.forgot = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_watermark_offsets(self, *arguments: Any, **options: Any) -> Any:
        if not self.forgot:
            self.forgot = 1
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return self._client.get_watermark_offsets(*arguments, **options)
