"""The names that the source and the sink understand, and a kind answer for those that they do not.

Spark hands options over in lower case.  Names and meanings are those of Spark's own Kafka source and sink, so that code
moves over by its format name; the names under "ours" go beyond it.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.client.errors import InvalidArgument
from headrace.client.security.connecting import way_to
from headrace.spark.errors import OptionError

SOURCE_NAMES = (
    "kafka.bootstrap.servers",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    # ours
    "profile",
    "group.id",
    "connectTimeoutMs",
    "fetchWith",
    "valueFormat",
    "valueSubject",
    "schemaRegistry",
    "badValues",
)

SINK_NAMES = (
    "kafka.bootstrap.servers",
    "topic",
    "includeHeaders",
    # ours
    "profile",
    "delivery",
    "deliveryId",
    "connectTimeoutMs",
    "valueFormat",
    "valueSubject",
    "schemaRegistry",
)

# Spark itself puts these among a streaming writer's options.
SPARK_SINK_NAMES = ("checkpointLocation", "queryName", "outputMode", "path")

CLIENT_PREFIX = "kafka."

# Set by the source and the sink themselves: a user's value would break what they promise.
RESERVED_CLIENT_PROPERTIES = {
    "auto.offset.reset": "set startingOffsets instead",
    "key.deserializer": "keys are always bytes, cast them in the query",
    "value.deserializer": "values are always bytes, cast them in the query",
    "key.serializer": "keys are always bytes or strings, cast them in the query",
    "value.serializer": "values are always bytes or strings, cast them in the query",
    "enable.auto.commit": "the position is committed after each batch when group.id is given",
    "enable.partition.eof": "it is how the end of a range is found",
    "sasl.jaas.config": "it is the Java client's; set kafka.sasl.username and kafka.sasl.password, or profile",
    "ssl.truststore.location": "it is the Java client's; set kafka.ssl.ca.location to the authority in PEM, or profile",
    "interceptor.classes": "interceptors are a feature of the Java client",
    "transactional.id": "set delivery to exactly-once, the id is made from the query",
}

# The Java client's names for what librdkafka calls otherwise.
JAVA_CLIENT_PROPERTIES = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "buffer.memory": "queue.buffering.max.kbytes",
}

# Only the Java client has these, and without them nothing is lost.
IGNORED_CLIENT_PROPERTIES = frozenset({"max.poll.records", "metric.reporters", "auto.commit.interval.ms"})


# What people set most, to name the nearest one when librdkafka does not know a name; it has no list of its own to ask for.
COMMON_CLIENT_PROPERTIES = (
    *JAVA_CLIENT_PROPERTIES,
    "acks",
    "allow.auto.create.topics",
    "batch.num.messages",
    "batch.size",
    "bootstrap.servers",
    "check.crcs",
    "client.id",
    "client.rack",
    "compression.level",
    "compression.type",
    "connections.max.idle.ms",
    "delivery.timeout.ms",
    "enable.idempotence",
    "enable.ssl.certificate.verification",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "group.id",
    "heartbeat.interval.ms",
    "isolation.level",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "message.max.bytes",
    "message.timeout.ms",
    "metadata.max.age.ms",
    "partitioner",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retries",
    "retry.backoff.ms",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.oauthbearer.config",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "session.timeout.ms",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.timeout.ms",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "transaction.timeout.ms",
)


def wrong_client_property(said: str) -> OptionError:
    """What librdkafka says of a property, with the option's own name and the nearest one that there is."""
    unknown = re.search(r'No such configuration property: "([^"]+)"', said)
    if unknown is None:
        return OptionError(f"a kafka.* option is wrong: {said}")
    close = difflib.get_close_matches(unknown.group(1), COMMON_CLIENT_PROPERTIES, n=1)
    hint = f"did you mean 'kafka.{close[0]}'?" if close else "librdkafka's CONFIGURATION.md lists those that there are"
    return OptionError(f"option 'kafka.{unknown.group(1)}' is no property of the client; {hint}")


def check_names(options: Iterable[str], known: tuple[str, ...], role: str) -> None:
    """Refuse the first option that nobody knows, and name the nearest one that exists."""
    by_lower = {name.lower(): name for name in known}
    for option in options:
        lower = option.lower()
        if lower not in by_lower and not lower.startswith(CLIENT_PREFIX):
            raise OptionError(f"option '{option}' is not one of the headrace {role}'s{_nearest(lower, by_lower)}")


def _nearest(name: str, by_lower: Mapping[str, str]) -> str:
    close = difflib.get_close_matches(name, by_lower, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{by_lower[close[0]]}'?"
    return "; it knows " + ", ".join(by_lower.values()) + " and kafka.<client property>"


def client_properties(options: Mapping[str, str]) -> dict[str, Any]:
    """The `kafka.*` options as librdkafka's properties, on top of a profile's where one is named."""
    properties: dict[str, Any] = {}
    for option, value in options.items():
        if not option.lower().startswith(CLIENT_PREFIX):
            continue
        name = option.lower().removeprefix(CLIENT_PREFIX)
        if name in RESERVED_CLIENT_PROPERTIES:
            raise OptionError(f"option 'kafka.{name}' cannot be set: {RESERVED_CLIENT_PROPERTIES[name]}")
        if name not in IGNORED_CLIENT_PROPERTIES:
            properties[JAVA_CLIENT_PROPERTIES.get(name, name)] = value
    named = next((value for option, value in options.items() if option.lower() == "profile"), None)
    if named is not None:
        properties = _of_profile(named, properties.get("bootstrap.servers")) | properties
    if not properties.get("bootstrap.servers", "").strip():
        raise OptionError("option 'kafka.bootstrap.servers' is missing: give the brokers as host:port, separated by commas")
    return properties


def _of_profile(named: str, bootstrap: str | None) -> dict[str, Any]:
    try:
        way = way_to(bootstrap, {"profile": named})
    except InvalidArgument as error:
        raise OptionError(f"option 'profile' is '{named}': {error}") from None
    return {**way.properties, "bootstrap.servers": way.bootstrap}
