"""librdkafka's clients: made here and nowhere else, for the SDK itself, for the commands and for Spark.

Always: settings that librdkafka does not accept are an InvalidArgument; its log lines go to the SDK's logger, or to another that
is given, and never by themselves to standard error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.client.errors import refused_settings, translate
from headrace.client.logs import librdkafka_log

__all__ = ["AdminClient", "Consumer", "Producer", "attempt", "new_admin", "new_consumer", "new_producer"]

Client = TypeVar("Client")
Result = TypeVar("Result")


def new_producer(properties: Mapping[str, Any], logger: logging.Logger = librdkafka_log) -> Producer:
    return _made(Producer, properties, logger)


def new_consumer(properties: Mapping[str, Any], logger: logging.Logger = librdkafka_log) -> Consumer:
    return _made(Consumer, properties, logger)


def new_admin(properties: Mapping[str, Any], logger: logging.Logger = librdkafka_log) -> AdminClient:
    return _made(AdminClient, properties, logger)


def _made(client: Callable[[dict[str, Any]], Client], properties: Mapping[str, Any], logger: logging.Logger) -> Client:
    try:
        return client({"logger": logger, **properties})
    except KafkaException as error:
        raise refused_settings(error) from None


def attempt(action: str, bootstrap: str, call: Callable[[], Result]) -> Result:
    """Run a call of a client; its error becomes ours, about an `action` in words that follow "could not"."""
    try:
        return call()
    except KafkaException as error:
        raise translate(error.args[0], action, bootstrap) from None
