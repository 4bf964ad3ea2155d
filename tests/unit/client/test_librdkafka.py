import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.client.errors import InvalidArgument, TopicNotFound
from headrace.client.librdkafka import attempt, new_admin, new_consumer, new_producer

NOBODY_THERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "readers"}


@pytest.mark.parametrize("new", [new_producer, new_consumer, new_admin])
def test_settings_that_librdkafka_does_not_accept_are_an_invalid_argument(new: Callable[[Mapping[str, Any]], object]) -> None:
    with pytest.raises(InvalidArgument, match='No such configuration property: "nope"'):
        new({**NOBODY_THERE, "nope": 1})


@pytest.mark.parametrize("where", ["argument", "property"])
def test_its_lines_go_to_a_logger_that_is_given(where: str) -> None:
    lines: list[str] = []
    logger = logging.Logger("a listener's")
    logger.addFilter(lambda record: bool(lines.append(record.getMessage())))
    properties = {**NOBODY_THERE, "debug": "conf", "log_level": 7}

    consumer = new_consumer(properties, logger) if where == "argument" else new_consumer({**properties, "logger": logger})
    consumer.poll(0.1)
    consumer.close()

    assert any("rdkafka#consumer" in line for line in lines)


def test_what_a_call_fails_with_is_an_error_of_ours() -> None:
    def ask() -> None:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))

    with pytest.raises(TopicNotFound, match="could not read orders"):
        attempt("read orders", "broker:9092", ask)
