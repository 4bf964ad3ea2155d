"""Schemas that refer to others, as the SDK gathers them."""

import pytest

from headrace.client.formats.registry import Reference, RegisteredSchema, Remembered, SchemaRegistry


def test_schemas_that_many_refer_to_are_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refers twice to the one before it, and the first to the last: there is no end to the ways."""

    def version(_: SchemaRegistry, subject: str, number: int) -> RegisteredSchema:
        before = (int(subject) - 1) % 30
        return RegisteredSchema("AVRO", subject, tuple(Reference(f"{way}{before}", f"{before}", 1) for way in "ab"))

    monkeypatch.setattr(SchemaRegistry, "_version", version)
    registry = SchemaRegistry("http://127.0.0.1:9")

    assert len(registry.referenced(version(registry, "29", 1))) == 60


def test_what_is_remembered_of_a_registry_is_bounded_by_count_and_by_size() -> None:
    many: Remembered[int, str] = Remembered(count_max=3, characters_max=100)
    for number in range(10):
        many.put(number, "x", 10)
    many.put(100, "large", 90)

    assert [number for number in range(101) if many.get(number) is not None] == [9, 100]
    many.put(101, "larger than all", 1000)
    assert (len(many), many.get(101)) == (1, "larger than all")
