"""Keys and values by a schema: what is written, who reads it, and what happens when schemas change."""

import dataclasses
import enum
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import BaseModel

from headrace import (
    Avro,
    Consumer,
    DecodeFailed,
    EncodeFailed,
    InvalidArgument,
    JsonSchema,
    Producer,
    Protobuf,
    RegistryFailed,
    SchemaRegistry,
)
from tests.support.registry import Registry


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


@dataclass
class Item:
    name: str
    count: int = 1


@dataclass
class Order:
    id: int
    items: list[Item]
    size: Size
    at: datetime
    note: str | None = None
    tags: dict[str, str] = field(default_factory=dict)


class Payment(BaseModel):
    order: int
    amount: float
    by: str | None = None


@pytest.fixture(scope="module")
def served(bootstrap: str) -> Iterator[Registry]:
    with Registry(bootstrap, f"_schemas-{uuid.uuid4().hex[:8]}") as running:
        yield running


@pytest.fixture
def registry(served: Registry) -> SchemaRegistry:
    return SchemaRegistry(served.url)


def send(bootstrap: str, topic: str, values: Any, *sent: Any) -> None:
    with Producer(bootstrap, values=values) as producer:
        producer.send_many(topic, sent)


def values_of(bootstrap: str, topic: str, values: Any = bytes) -> list[Any]:
    with Consumer(topic, bootstrap=bootstrap, values=values) as consumer:
        return [record.value for record in consumer.to_end()]


ORDER = Order(id=7, items=[Item("tea"), Item("cup", 2)], size=Size.LARGE, at=datetime(2026, 1, 2, tzinfo=UTC), tags={"a": "b"})


def test_dataclasses_go_through_avro(bootstrap: str, registry: SchemaRegistry, topic: str) -> None:
    send(bootstrap, topic, Avro(Order, registry=registry), ORDER, dataclasses.replace(ORDER, note="soon"))

    assert values_of(bootstrap, topic, Avro(Order, registry=registry)) == [ORDER, dataclasses.replace(ORDER, note="soon")]
    assert values_of(bootstrap, topic, Avro(registry=registry))[0]["items"][1] == {"name": "cup", "count": 2}


@pytest.mark.parametrize("by_schema", [Avro, JsonSchema])
def test_pydantic_models_go_through_avro_and_json(bootstrap: str, registry: SchemaRegistry, topic: str, by_schema: Any) -> None:
    payment = Payment(order=7, amount=1.5)
    send(bootstrap, topic, by_schema(Payment, registry=registry), payment)

    assert values_of(bootstrap, topic, by_schema(Payment, registry=registry)) == [payment]


def test_dataclasses_go_through_json(bootstrap: str, registry: SchemaRegistry, topic: str) -> None:
    send(bootstrap, topic, JsonSchema(Order, registry=registry), ORDER)

    assert values_of(bootstrap, topic, JsonSchema(Order, registry=registry)) == [ORDER]
    assert values_of(bootstrap, topic, JsonSchema(registry=registry))[0]["id"] == 7


def test_messages_go_through_protobuf(bootstrap: str, registry: SchemaRegistry, topic: str) -> None:
    send(bootstrap, topic, Protobuf(Timestamp, registry=registry), Timestamp(seconds=5))

    assert values_of(bootstrap, topic, Protobuf(Timestamp, registry=registry)) == [Timestamp(seconds=5)]
    assert values_of(bootstrap, topic)[0][5:6] == b"\0"  # the first message of its file


def test_a_message_that_is_not_the_first_of_its_file_is_named_by_its_place(
    bootstrap: str, served: Registry, registry: SchemaRegistry, topic: str
) -> None:
    file = FileDescriptorProto(name=f"{topic}.proto", package="shop", syntax="proto3")
    file.message_type.add(name="First")
    inner = file.message_type.add(name="Second").nested_type.add(name="Inner")
    inner.field.add(name="number", number=1, type=FieldDescriptorProto.TYPE_INT32, label=FieldDescriptorProto.LABEL_OPTIONAL)
    pool = DescriptorPool()
    pool.Add(file)
    kind = GetMessageClass(pool.FindMessageTypeByName("shop.Second.Inner"))
    send(bootstrap, topic, Protobuf(kind, registry=registry), kind(number=3))

    (data,) = values_of(bootstrap, topic)
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": served.url}) as client:
        assert ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)(data, context).number == 3
    assert values_of(bootstrap, topic, Protobuf(kind, registry=registry)) == [kind(number=3)]


def test_confluents_serializers_and_ours_read_each_other(
    bootstrap: str, served: Registry, registry: SchemaRegistry, topic: str
) -> None:
    schema = '{"type":"record","name":"Payment","fields":[{"name":"order","type":"long"}]}'
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": served.url}) as client:
        send(bootstrap, topic, bytes, AvroSerializer(client, schema)({"order": 1}, context))
        send(bootstrap, topic, Avro(schema, registry=registry), {"order": 2})
        theirs = [AvroDeserializer(client)(data, context) for data in values_of(bootstrap, topic)]
        send(bootstrap, f"{topic}-json", JsonSchema(Payment, registry=registry), Payment(order=3, amount=1))
        json = JSONDeserializer(None, schema_registry_client=client)
        other = SerializationContext(f"{topic}-json", MessageField.VALUE)
        assert json(values_of(bootstrap, f"{topic}-json")[0], other)["order"] == 3

    assert theirs == values_of(bootstrap, topic, Avro(schema, registry=registry)) == [{"order": 1}, {"order": 2}]


def test_a_class_that_got_a_field_reads_what_was_written_before(bootstrap: str, registry: SchemaRegistry, topic: str) -> None:
    newer = dataclasses.make_dataclass("Item", [("name", str), ("count", int, 1), ("colour", str | None, None)])
    send(bootstrap, topic, Avro(Item, registry=registry), Item("tea", 3))
    send(bootstrap, topic, Avro(newer, registry=registry), newer("cup", 1, "blue"))

    assert values_of(bootstrap, topic, Avro(newer, registry=registry)) == [newer("tea", 3, None), newer("cup", 1, "blue")]
    assert values_of(bootstrap, topic, Avro(Item, registry=registry)) == [Item("tea", 3), Item("cup", 1)]


def test_a_change_that_readers_could_not_follow_is_refused(bootstrap: str, registry: SchemaRegistry, topic: str) -> None:
    send(bootstrap, topic, Avro(Item, registry=registry), Item("tea"))
    other = dataclasses.make_dataclass("Item", [("name", int)])

    with (
        Producer(bootstrap, values=Avro(other, registry=registry)) as producer,
        pytest.raises(EncodeFailed, match="incompatible") as refused,
    ):
        producer.send(topic, other(3))
    assert isinstance(refused.value.__cause__, RegistryFailed)
    assert refused.value.__cause__.code == 40901


def test_keys_have_a_subject_of_their_own(bootstrap: str, registry: SchemaRegistry, topic: str) -> None:
    with Producer(bootstrap, keys=Avro("string", registry=registry), values=JsonSchema(Payment, registry=registry)) as producer:
        producer.send(topic, Payment(order=1, amount=2), key="ann")

    assert registry.latest(f"{topic}-key")[1].text == '"string"'
    assert registry.latest(f"{topic}-value")[1].type == "JSON"


def test_a_value_that_does_not_fit_its_schema_is_not_sent(bootstrap: str, registry: SchemaRegistry, topic: str) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    with Producer(bootstrap, values=JsonSchema(schema, registry=registry)) as producer:
        with pytest.raises(EncodeFailed, match="not of type"):
            producer.send(topic, {"id": "seven"})
        producer.send(topic, {"id": 7})

    assert values_of(bootstrap, topic, JsonSchema(schema, registry=registry)) == [{"id": 7}]


def test_what_was_written_without_a_schema_is_told_apart(bootstrap: str, registry: SchemaRegistry, topic: str) -> None:
    send(bootstrap, topic, bytes, b"plain")

    with pytest.raises(DecodeFailed, match="not written as Avro"):
        values_of(bootstrap, topic, Avro(registry=registry))


def test_a_schema_that_must_be_there_is_not_registered(bootstrap: str, registry: SchemaRegistry, topic: str) -> None:
    with Producer(bootstrap, values=Avro(Item, registry=registry, register=False)) as producer, pytest.raises(EncodeFailed):
        producer.send(topic, Item("tea"))

    with pytest.raises(RegistryFailed, match="not found"):
        registry.latest(f"{topic}-value")


def test_a_registry_that_is_not_there_is_named(bootstrap: str, topic: str) -> None:
    nobody = SchemaRegistry("http://127.0.0.1:9", timeout=0.3)

    with pytest.raises(RegistryFailed, match=r"http://127\.0\.0\.1:9"):
        nobody.by_id(1)
    for wrong in ("127.0.0.1:8080", "ftp://here"):
        with pytest.raises(InvalidArgument, match="http://host:port"):
            SchemaRegistry(wrong)
    with pytest.raises(InvalidArgument, match="a dataclass, a pydantic model"):
        Avro(int, registry=nobody)
