"""Topics that take only records with the id of a registered schema."""

from collections.abc import Iterator

import pytest

from headrace import Admin, Avro, DeliveryFailed, JsonSchema, Producer, SchemaRegistry
from headrace.testing import Broker
from tests.support.registry import Registry

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'


@pytest.fixture(scope="module")
def own() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def test_a_value_must_begin_with_the_id_of_a_registered_schema(own: Broker) -> None:
    with (
        Registry(own.bootstrap, "_schemas") as served,
        Admin(own.bootstrap) as admin,
        Producer(own.bootstrap, linger=0) as plain,
        Producer(own.bootstrap, values=Avro(ORDER, registry=SchemaRegistry(served.url)), linger=0) as typed,
    ):
        admin.create_topic("orders", settings={"headrace.value.schema.validation": True})

        typed.send("orders", {"id": 7}).result(30)
        plain.send("orders", None, key=b"k").result(30)  # a tombstone has no value to be checked
        with pytest.raises(DeliveryFailed):
            plain.send("orders", b"plain").result(30)
        with pytest.raises(DeliveryFailed):
            plain.send("orders", b"\0\0\0\0\x63x").result(30)
        admin.change_settings("orders", {"headrace.value.schema.validation": None})
        plain.send("orders", b"plain").result(30)


def test_a_key_must_begin_with_the_id_of_a_registered_schema(own: Broker) -> None:
    with (
        Registry(own.bootstrap, "_schemas") as served,
        Admin(own.bootstrap) as admin,
        Producer(own.bootstrap, keys=JsonSchema({"type": "string"}, registry=served.url), linger=0) as typed,
        Producer(own.bootstrap, linger=0) as plain,
    ):
        admin.create_topic("bills", settings={"headrace.key.schema.validation": True})

        typed.send("bills", b"any", key="ann").result(30)
        plain.send("bills", b"any").result(30)  # without a key there is nothing to be checked
        with pytest.raises(DeliveryFailed):
            plain.send("bills", b"any", key=b"ann").result(30)
