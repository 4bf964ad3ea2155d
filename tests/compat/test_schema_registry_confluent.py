"""confluent-kafka's client of a schema registry, and its serializers, against ours."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.schema_registry_client import ConfigCompatibilityLevel, ServerConfig
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from tests.support.registry import Registry

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
WIDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"note","type":"string","default":"-"}]}'
OTHER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}'


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[Registry]:
    with Registry(bootstrap, f"_schemas-{uuid.uuid4().hex[:8]}") as running:
        yield running


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as opened:
        yield opened


@pytest.fixture
def subject(topic: str) -> str:
    return f"{topic}-value"


def through_the_log(bootstrap: str, topic: str, data: bytes) -> bytes:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, data)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(30)
    consumer.close()
    return bytes(message.value())


def order_class() -> Any:
    """The class of `message Order { int64 id = 1; string note = 2; google.protobuf.Timestamp at = 3; }`."""
    file = FileDescriptorProto(name=f"order-{uuid.uuid4().hex}.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=FieldDescriptorProto.LABEL_OPTIONAL)
    message.field.add(name="note", number=2, type=FieldDescriptorProto.TYPE_STRING, label=FieldDescriptorProto.LABEL_OPTIONAL)
    message.field.add(
        name="at",
        number=3,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".google.protobuf.Timestamp",
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    pool = DescriptorPool()
    times = FileDescriptorProto()
    Timestamp.DESCRIPTOR.file.CopyToProto(times)
    pool.Add(times)
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_avro_goes_through_the_log_and_evolves(bootstrap: str, client: SchemaRegistryClient, topic: str) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    data = AvroSerializer(client, ORDER)({"id": 7}, context)

    arrived = through_the_log(bootstrap, topic, data)

    assert arrived[:1] == b"\0"
    assert AvroDeserializer(client)(arrived, context) == {"id": 7}
    client.register_schema(f"{topic}-value", Schema(WIDER, "AVRO"))
    newest = AvroDeserializer(client, WIDER)
    assert newest(arrived, context) == {"id": 7, "note": "-"}


def test_json_goes_through_the_log(bootstrap: str, client: SchemaRegistryClient, topic: str) -> None:
    schema = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'
    context = SerializationContext(topic, MessageField.VALUE)
    data = JSONSerializer(schema, client)({"id": 7}, context)

    arrived = through_the_log(bootstrap, topic, data)

    assert JSONDeserializer(None, schema_registry_client=client)(arrived, context) == {"id": 7}
    with pytest.raises(Exception, match="is not of type"):
        JSONSerializer(schema, client)({"id": "seven"}, context)


def test_protobuf_goes_through_the_log_with_what_it_imports(bootstrap: str, client: SchemaRegistryClient, topic: str) -> None:
    order = order_class()
    context = SerializationContext(topic, MessageField.VALUE)
    value = order(id=7, note="soon", at=order.DESCRIPTOR.fields_by_name["at"].message_type._concrete_class(seconds=5))
    data = ProtobufSerializer(order, client, {"use.deprecated.format": False})(value, context)

    arrived = through_the_log(bootstrap, topic, data)

    read = ProtobufDeserializer(order, {"use.deprecated.format": False}, client)(arrived, context)
    assert (read.id, read.note, read.at.seconds) == (7, "soon", 5)
    again = ProtobufSerializer(
        order, client, {"use.deprecated.format": False, "auto.register.schemas": False, "use.latest.version": True}
    )
    assert again(value, context) == data


def test_a_serializer_may_look_a_schema_up_without_registering_it(
    registry: Registry, client: SchemaRegistryClient, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    looks_up = AvroSerializer(client, ORDER, conf={"auto.register.schemas": False})
    with pytest.raises(SchemaRegistryError) as missing:
        looks_up({"id": 1}, context)
    assert (missing.value.http_status_code, missing.value.error_code) == (404, 40401)
    AvroSerializer(client, ORDER, conf={"subject.name.strategy": topic_subject_name_strategy})({"id": 1}, context)

    with SchemaRegistryClient({"url": registry.url}) as fresh:
        assert AvroSerializer(fresh, ORDER, conf={"auto.register.schemas": False})({"id": 1}, context)[:1] == b"\0"


def test_every_call_of_the_client(client: SchemaRegistryClient, subject: str) -> None:
    first = client.register_schema(subject, Schema(ORDER, "AVRO"))
    second = client.register_schema(subject, Schema(WIDER, "AVRO"), normalize_schemas=True)

    assert client.register_schema(subject, Schema(ORDER, "AVRO")) == first
    assert client.register_schema_full_response(subject, Schema(WIDER, "AVRO")).schema_id == second
    assert client.get_schema(second).schema_str is not None
    assert client.lookup_schema(subject, Schema(ORDER, "AVRO")).version == 1
    assert client.get_latest_version(subject).schema_id == second
    assert client.get_version(subject, 1).schema_id == first
    assert client.get_versions(subject) == [1, 2]
    assert subject in client.get_subjects()
    assert subject in client.get_subjects_by_schema_id(first)
    assert [each.version for each in client.get_schema_versions(first) if each.subject == subject] == [1]
    assert client.get_schema_types() == ["AVRO", "JSON", "PROTOBUF"]
    assert client.test_compatibility(subject, Schema(WIDER, "AVRO"))
    assert not client.test_compatibility(subject, Schema(OTHER, "AVRO"))
    assert not client.test_compatibility_all_versions(subject, Schema(OTHER, "AVRO"))
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, Schema(OTHER, "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)
    client.set_compatibility(subject, "NONE")
    assert client.get_compatibility(subject) == "NONE"
    client.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.FULL, compatibility_group="major"))
    assert client.get_config(subject).compatibility_group == "major"
    client.delete_config(subject)
    client.update_mode(subject, "READONLY")
    assert client.get_mode(subject) == "READONLY"
    client.delete_mode(subject)
    assert client.get_global_mode() == "READWRITE"
    assert client.get_contexts()[0] == "."
    assert client.delete_version(subject, 1) == 1
    assert client.delete_version(subject, 1, permanent=True) == 1
    assert client.delete_subject(subject) == [2]
    assert client.delete_subject(subject, permanent=True) == [2]


def test_references_and_metadata_of_the_client(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(f"{subject}-order", Schema(ORDER, "AVRO"))
    bill = '{"type":"record","name":"Bill","fields":[{"name":"of","type":"Order"}]}'
    reference = SchemaReference("Order", f"{subject}-order", 1)

    id = client.register_schema(subject, Schema(bill, "AVRO", [reference]))

    assert client.get_schema(id).references == [reference]
    assert client.get_referenced_by(f"{subject}-order", 1) == [id]
    context = SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)
    writes = AvroSerializer(client, Schema(bill, "AVRO", [reference]))
    assert AvroDeserializer(client)(writes({"of": {"id": 3}}, context), context) == {"of": {"id": 3}}
