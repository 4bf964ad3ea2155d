"""librdkafka, kafka-python and aiokafka, signed in by every mechanism that each supports."""

import asyncio
import json
import re
import ssl
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer
from kafka.net.compat import KafkaNetClient
from kafka.net.sasl.oauth import AbstractTokenProvider

from headrace.testing import Broker
from tests.compat.security.stage import CERTIFICATE, OTHERS, TOKEN, WAYS, WITH_PASSWORD, Stage, Way
from tests.support.waiting import until

VALUES = [b"one", b"two", b"three"]
WAIT_S = 30

every_way = pytest.mark.parametrize("way", WAYS, ids=str)
every_password = pytest.mark.parametrize("way", WITH_PASSWORD, ids=str)
BY_PASSWORD = Way("SASL_SSL", "SCRAM-SHA-512")
REFUSED = "invalid credentials|Invalid username or password"


# -- librdkafka


def librdkafka(stage: Stage, way: Way, **more: Any) -> dict[str, Any]:
    config: dict[str, Any] = {**stage.librdkafka(way), **more}
    if way.mechanism == TOKEN:
        config["oauth_cb"] = lambda _: (stage.issuer.token(), time.time() + 3000)
    return config


@every_way
def test_librdkafka_writes_and_reads(stage: Stage, topic: str, way: Way) -> None:
    producer = Producer(librdkafka(stage, way))
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(librdkafka(stage, way, **{"group.id": topic, "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    try:
        assert [message.value() for message in consumer.consume(len(VALUES), WAIT_S)] == VALUES
    finally:
        consumer.close()


def test_librdkafka_signs_in_again_on_its_connection() -> None:
    """KIP-368: as often as the broker says, and no connection is lost over it."""
    told: list[dict[str, Any]] = []
    with Broker(users={"ann": "secret"}, settings={"connections.max.reauth.ms": 1_000}) as broker:
        reports = {"statistics.interval.ms": 100, "stats_cb": lambda text: told.append(json.loads(text))}
        producer = Producer({**broker.client_config("ann"), **reports})

        def sign_ins() -> int:
            producer.produce("orders", b"one")
            producer.poll(0.05)
            return broker.run(lambda running: running.parts.figures.security.sign_ins["SCRAM-SHA-256", "succeeded"])

        until(lambda: sign_ins() >= 5, "it has signed in again and again")
        assert producer.flush(WAIT_S) == 0
        until(lambda: producer.poll(0.05) or told, "it tells of its connections")

    connected = [each for each in told[-1]["brokers"].values() if each["connects"]]
    assert connected
    assert {(each["connects"], each["disconnects"]) for each in connected} == {(1, 0)}


@every_password
def test_librdkafka_is_told_that_a_password_is_wrong(stage: Stage, way: Way) -> None:
    errors: list[KafkaError] = []
    producer = Producer({**stage.librdkafka(way, password="wrong"), "error_cb": errors.append})
    until(lambda: producer.poll(0.05) or errors, "an error is told")

    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert re.search(REFUSED, errors[0].str())


def test_librdkafka_is_told_which_topic_it_may_not_write(stage: Stage) -> None:
    failures: list[KafkaError] = []
    producer = Producer(librdkafka(stage, BY_PASSWORD))
    producer.produce(OTHERS, b"value", on_delivery=lambda error, _: failures.append(error))

    assert producer.flush(WAIT_S) == 0
    assert [failure.code() for failure in failures] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


# -- kafka-python


class Token(AbstractTokenProvider):
    """What kafka-python asks for a token."""

    def __init__(self, make: Callable[[], str]) -> None:
        super().__init__()
        self._make = make

    def token(self) -> str:
        return self._make()


def kafka_python(stage: Stage, way: Way, password: str = "ann's secret") -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap_servers": stage.bootstrap(way), "security_protocol": way.listener}
    if way.listener != "SASL_PLAINTEXT":
        config["ssl_cafile"] = stage.authority
    if way.mechanism == CERTIFICATE:
        return config | {"ssl_certfile": stage.certificate, "ssl_keyfile": stage.certificate}
    if way.mechanism == TOKEN:
        return config | {"sasl_mechanism": TOKEN, "sasl_oauth_token_provider": Token(stage.issuer.token)}
    return config | {"sasl_mechanism": way.mechanism, "sasl_plain_username": "ann", "sasl_plain_password": password}


@every_way
def test_kafka_python_writes_and_reads(stage: Stage, topic: str, way: Way) -> None:
    producer = kafka.KafkaProducer(**kafka_python(stage, way))
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **kafka_python(stage, way))
    # Where its group is formed before it knows the topic, it assigns nothing and does not look again.
    assert consumer.partitions_for_topic(topic)
    read: list[bytes] = []
    try:
        until(
            lambda: read.extend(record.value for records in consumer.poll(200).values() for record in records) or len(read) >= 3,
            "all are read",
        )
        assert read == VALUES
    finally:
        consumer.close()


def test_kafka_python_does_not_get_in_with_a_wrong_password(stage: Stage) -> None:
    """It takes a refusal for a broker that is not ready, and tries again until it gives up."""
    made: list[Any] = []

    def remembered(**config: Any) -> Any:
        made.append(KafkaNetClient(**config))
        return made[0]

    with pytest.raises(kafka.errors.KafkaTimeoutError):
        kafka.KafkaAdminClient(bootstrap_timeout_ms=500, kafka_client=remembered, **kafka_python(stage, BY_PASSWORD, "wrong"))

    # What it gives up is the first answer: its thread would go on trying until this process ends.
    made[0].close()
    made[0]._manager._net.stop()


def test_kafka_python_is_told_which_topic_it_may_not_write(stage: Stage) -> None:
    producer = kafka.KafkaProducer(**kafka_python(stage, BY_PASSWORD))
    with pytest.raises(kafka.errors.TopicAuthorizationFailedError, match=OTHERS):
        producer.send(OTHERS, b"value").get(WAIT_S)
    producer.close()


# -- aiokafka


class AsyncToken(AsyncTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """What aiokafka asks for a token."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    async def token(self) -> str:
        return self._make()


def async_settings(stage: Stage, way: Way, password: str = "ann's secret") -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap_servers": stage.bootstrap(way), "security_protocol": way.listener}
    if way.listener != "SASL_PLAINTEXT":
        config["ssl_context"] = context = ssl.create_default_context(cafile=stage.authority)
        if way.mechanism == CERTIFICATE:
            context.load_cert_chain(stage.certificate)
            return config
    if way.mechanism == TOKEN:
        return config | {"sasl_mechanism": TOKEN, "sasl_oauth_token_provider": AsyncToken(stage.issuer.token)}
    return config | {"sasl_mechanism": way.mechanism, "sasl_plain_username": "ann", "sasl_plain_password": password}


async def written_and_read(stage: Stage, way: Way, topic: str) -> list[bytes]:
    async with aiokafka.AIOKafkaProducer(**async_settings(stage, way)) as producer:
        for value in VALUES:
            await producer.send_and_wait(topic, value)
    settings = async_settings(stage, way)
    async with aiokafka.AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings) as consumer:
        return [(await asyncio.wait_for(consumer.getone(), WAIT_S)).value for _ in VALUES]


@every_way
def test_aiokafka_writes_and_reads(stage: Stage, topic: str, way: Way) -> None:
    assert asyncio.run(written_and_read(stage, way, topic)) == VALUES


@every_password
def test_aiokafka_is_told_that_a_password_is_wrong(stage: Stage, way: Way) -> None:
    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(**async_settings(stage, way, "wrong"))
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(start())
