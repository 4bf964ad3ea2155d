"""Other people's codecs read what we write, see the same values in it, and write the same bytes."""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from headrace.wire.apis import ApiKey, messages_of
from headrace.wire.codec import decode, encode
from headrace.wire.messages.api_versions import ApiVersionsResponse
from headrace.wire.schema import fields_of
from tests.unit.wire.wire_referees import (
    AIOKAFKA,
    is_known_to_kio,
    kafka_python_message,
    kio_entity,
    ours_by_name,
    ours_flat,
    through_aiokafka,
    through_kafka_python,
    through_kio,
)
from tests.unit.wire.wire_strategies import ALL_MESSAGES, is_ours, kept_by, messages, versions_of

QUICK = settings(
    max_examples=4,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)

AIOKAFKA_IS_WRONG = {
    (ApiKey.LIST_OFFSETS, 4, "Request"): "gives the leader epoch 64 bits",
    (ApiKey.LIST_OFFSETS, 5, "Request"): "gives the leader epoch 64 bits",
    (ApiKey.DESCRIBE_ACLS, 2, "Request"): "takes the first flexible version for an inflexible one",
    (ApiKey.DESCRIBE_ACLS, 2, "Response"): "takes the first flexible version for an inflexible one",
}

Check = Callable[[Any, int, bytes], None]


def known_to(knows: Callable[[type[Any], int], bool]) -> pytest.MarkDecorator:
    """Run a test for every message that a referee knows, with the versions of it that it knows."""
    cases = [(message, [version for version in versions_of(message) if knows(message, version)]) for message in ALL_MESSAGES]
    return pytest.mark.parametrize(
        ("message", "versions"),
        [case for case in cases if case[1]],
        ids=lambda part: part.__name__ if isinstance(part, type) else "",
    )


def check_examples(message: type[Any], versions: list[int], check: Check) -> None:
    @QUICK
    @given(messages(message, tame=True))
    def run(value: Any) -> None:
        for version in versions:
            kept = kept_by(value, version)
            check(kept, version, encode(kept, version))

    run()


def side_of(message: type[Any]) -> str:
    return "Request" if message.__name__.endswith("Request") else "Response"


@pytest.mark.slow
@known_to(is_known_to_kio)
def test_kio_agrees(message: type[Any], versions: list[int]) -> None:
    def check(value: Any, version: int, data: bytes) -> None:
        seen, written = through_kio(kio_entity(message, version), data)
        assert _with_new_names(seen) == ours_by_name(value, version)
        assert written == data

    check_examples(message, versions, check)


@known_to(lambda message, version: kafka_python_message(message, version) is not None)
def test_kafka_python_agrees(message: type[Any], versions: list[int]) -> None:
    def check(value: Any, version: int, data: bytes) -> None:
        if message is ApiVersionsResponse and value.error_code:
            value = replace(value, error_code=0)  # on any error kafka-python reads the rest as version 0
            data = encode(value, version)
        seen, written = through_kafka_python(cast(type[Any], kafka_python_message(message, version)), data, version)
        assert _without_operations(_with_new_names(seen)) == _without_operations(ours_by_name(value, version))
        assert written == data

    check_examples(message, versions, check)


@known_to(lambda message, version: (message.api.key, version, side_of(message)) in AIOKAFKA.keys() - AIOKAFKA_IS_WRONG.keys())
def test_aiokafka_agrees(message: type[Any], versions: list[int]) -> None:
    def check(value: Any, version: int, data: bytes) -> None:
        if any(field.tag is not None for field in fields_of(message)):
            value = _without_tagged(value)
            data = encode(value, version)
        seen, written = through_aiokafka(AIOKAFKA[message.api.key, version, side_of(message)], data)
        assert seen == ours_flat(value, version)
        assert written == data

    check_examples(message, versions, check)


def _with_new_names(value: Any) -> Any:
    """The one field that newer releases renamed."""
    if isinstance(value, dict) and {"transactional_id", "generation_id"} <= value.keys():
        return {"generation_id_or_member_epoch" if name == "generation_id" else name: item for name, item in value.items()}
    return value


def _without_operations(value: Any) -> Any:
    """kafka-python unfolds the bit field of allowed operations; the written bytes show that it read it well."""
    if isinstance(value, dict):
        return {name: _without_operations(item) for name, item in value.items() if not name.endswith("authorized_operations")}
    return [_without_operations(item) for item in value] if isinstance(value, list) else value


def _without_tagged(value: Any) -> Any:
    """aiokafka keeps tagged fields as bytes and writes them back; leave them out to compare the rest."""
    defaults = {field.name: field.default() for field in fields_of(type(value)) if field.tag is not None and field.default}
    return replace(value, **defaults)


def _samples() -> list[tuple[str, int, bytes, Any]]:
    lines = (Path(__file__).parent / "samples_by_kafka.txt").read_text().splitlines()
    rows = [line.split(" ", 3) for line in lines if not line.startswith("#")]
    return [(name, int(version), bytes.fromhex(data.strip("-")), json.loads(values)) for name, version, data, values in rows]


MESSAGES_BY_NAME = {message.__name__: message for message in ALL_MESSAGES}


SAMPLES = _samples()


@pytest.mark.parametrize(("name", "version", "data", "values"), SAMPLES, ids=[f"{row[0]}-v{row[1]}" for row in SAMPLES])
def test_what_kafka_itself_wrote_is_read_and_written_the_same(name: str, version: int, data: bytes, values: Any) -> None:
    message = decode(MESSAGES_BY_NAME[name], data, version)

    assert as_kafka_json(message, version) == values
    assert encode(message, version) == data


def as_kafka_json(value: Any, version: int) -> Any:
    """The form that Kafka's JSON converters give a message."""
    if hasattr(type(value), "__dataclass_fields__"):
        present = [field.name for field in fields_of(type(value)) if field.in_version(version) and not is_ours(field)]
        return {_camel_case(name): as_kafka_json(getattr(value, name), version) for name in present}
    if isinstance(value, tuple):
        return [as_kafka_json(item, version) for item in value]
    if isinstance(value, UUID):
        return urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return b64encode(value).decode() if isinstance(value, bytes) else value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def test_every_api_is_known_to_a_referee() -> None:
    for key in sorted(key for key in ApiKey if key in {message.api.key for message in ALL_MESSAGES}):
        for message in messages_of(key):
            newest = message.api.versions[-1]
            sampled = any(name == message.__name__ and version == newest for name, version, _, _ in SAMPLES)

            assert sampled or any(is_known_to_kio(message, version) for version in message.api.versions)
