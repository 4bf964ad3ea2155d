"""A durable, partitioned, replicated log that speaks Kafka's wire protocol, and the SDK to use it with.

What a name stands for is imported when it is first used: `import headrace` itself costs next to nothing.
"""

TYPE_CHECKING = False  # checkers take this name for True; to import it from `typing` would cost more than all the rest

if TYPE_CHECKING:
    from headrace.client.admin.admin import Admin
    from headrace.client.aio.admin import AsyncAdmin
    from headrace.client.aio.consumer import AsyncConsumer
    from headrace.client.aio.producer import AsyncProducer
    from headrace.client.aio.queue import AsyncQueue
    from headrace.client.consumer.consumer import Consumer
    from headrace.client.consumer.priority import PriorityConsumer
    from headrace.client.deadletter.backoff import Backoff
    from headrace.client.deadletter.deadletter import DeadLetters
    from headrace.client.errors import (
        BatchFailed,
        BrokerError,
        BrokerTimeout,
        BufferFull,
        Closed,
        DecodeFailed,
        DeliveryFailed,
        DeliveryTimeout,
        EncodeFailed,
        Fenced,
        GroupNotFound,
        HeadraceError,
        InvalidArgument,
        Reject,
        SecurityFailed,
        StillRunning,
        TopicExists,
        TopicNotFound,
        TransactionAborted,
        WrongState,
    )
    from headrace.client.exactly_once.exactly_once import exactly_once
    from headrace.client.formats.avro import Avro
    from headrace.client.formats.json_schema import JsonSchema
    from headrace.client.formats.protobuf import Protobuf
    from headrace.client.formats.registry import RegistryFailed, SchemaRegistry
    from headrace.client.producer.partitioners import KeyHash, RoundRobin, Salted, Sticky
    from headrace.client.producer.producer import Producer
    from headrace.client.queue.job import Job
    from headrace.client.queue.queue import Queue
    from headrace.client.records.record import Delivery, Record
    from headrace.model.identity import TopicPartition

_ERRORS = (
    "BatchFailed",
    "BrokerError",
    "BrokerTimeout",
    "BufferFull",
    "Closed",
    "DecodeFailed",
    "DeliveryFailed",
    "DeliveryTimeout",
    "EncodeFailed",
    "Fenced",
    "GroupNotFound",
    "HeadraceError",
    "InvalidArgument",
    "Reject",
    "SecurityFailed",
    "StillRunning",
    "TopicExists",
    "TopicNotFound",
    "TransactionAborted",
    "WrongState",
)
_HOMES = {
    "Admin": "headrace.client.admin.admin",
    "AsyncAdmin": "headrace.client.aio.admin",
    "AsyncConsumer": "headrace.client.aio.consumer",
    "AsyncProducer": "headrace.client.aio.producer",
    "AsyncQueue": "headrace.client.aio.queue",
    "Avro": "headrace.client.formats.avro",
    "Backoff": "headrace.client.deadletter.backoff",
    "Consumer": "headrace.client.consumer.consumer",
    "DeadLetters": "headrace.client.deadletter.deadletter",
    "Delivery": "headrace.client.records.record",
    "Job": "headrace.client.queue.job",
    "JsonSchema": "headrace.client.formats.json_schema",
    "KeyHash": "headrace.client.producer.partitioners",
    "PriorityConsumer": "headrace.client.consumer.priority",
    "Producer": "headrace.client.producer.producer",
    "Protobuf": "headrace.client.formats.protobuf",
    "Queue": "headrace.client.queue.queue",
    "Record": "headrace.client.records.record",
    "RegistryFailed": "headrace.client.formats.registry",
    "RoundRobin": "headrace.client.producer.partitioners",
    "Salted": "headrace.client.producer.partitioners",
    "SchemaRegistry": "headrace.client.formats.registry",
    "Sticky": "headrace.client.producer.partitioners",
    "TopicPartition": "headrace.model.identity",
    "exactly_once": "headrace.client.exactly_once.exactly_once",
    **dict.fromkeys(_ERRORS, "headrace.client.errors"),
}

__all__ = [  # noqa: RUF022 - what people look for first comes first
    "Producer",
    "Consumer",
    "Admin",
    "AsyncProducer",
    "AsyncConsumer",
    "AsyncAdmin",
    "Queue",
    "AsyncQueue",
    "Job",
    "Record",
    "Delivery",
    "TopicPartition",
    "PriorityConsumer",
    "DeadLetters",
    "Backoff",
    "Reject",
    "exactly_once",
    "KeyHash",
    "RoundRobin",
    "Sticky",
    "Salted",
    "Avro",
    "JsonSchema",
    "Protobuf",
    "SchemaRegistry",
    "HeadraceError",
    "BatchFailed",
    "BrokerError",
    "BrokerTimeout",
    "BufferFull",
    "Closed",
    "DecodeFailed",
    "DeliveryFailed",
    "DeliveryTimeout",
    "EncodeFailed",
    "Fenced",
    "GroupNotFound",
    "InvalidArgument",
    "RegistryFailed",
    "SecurityFailed",
    "StillRunning",
    "TopicExists",
    "TopicNotFound",
    "TransactionAborted",
    "WrongState",
]


if not TYPE_CHECKING:  # or checkers would let every name pass

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'headrace' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(home), name)
        globals()[name] = value  # the next use does not come here
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
