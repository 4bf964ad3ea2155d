"""kafkajs, the client of the Node world: what goes in comes out, and what it administers it can read back."""

from base64 import b64decode, b64encode
from typing import Any

import pytest

from tests.compat import kafkajs_stories
from tests.compat.compat_cases import CODECS, LARGE_TOPIC_BYTES, TIMES_MS, Sent, records
from tests.compat.kafkajs_stories import needs_kafkajs

pytestmark = needs_kafkajs


def tell(bootstrap: str, topic: str, story: str, *arguments: str, given: object = None) -> Any:
    return kafkajs_stories.tell("story.js", bootstrap, topic, story, *arguments, given=given)


def text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def value_of(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def as_json(record: Sent) -> dict[str, Any]:
    """kafkajs keeps headers in an object: values of one name stand together."""
    headers: dict[str, list[str | None]] = {}
    for name, value in record.headers:
        headers.setdefault(name, []).append(text(value))
    return {"key": text(record.key), "value": text(record.value), "headers": list(headers.items())}


def from_json(record: dict[str, Any]) -> Sent:
    headers = tuple((name, value_of(value)) for name, values in record["headers"] for value in values)
    return Sent(value_of(record["key"]), value_of(record["value"]), headers)


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_shape_come_back_as_they_were_sent(bootstrap: str, topic: str, codec: str) -> None:
    sent = records()
    given = {"largestBytes": 2 * LARGE_TOPIC_BYTES, "records": [as_json(record) for record in sent]}

    result = tell(bootstrap, topic, "roundTrip", codec, given=given)

    assert result["baseOffset"] == "0"
    assert [from_json(record) for record in result["records"]] == list(sent)


def test_a_seek_by_time_finds_the_first_record_at_or_after_it(bootstrap: str, topic: str) -> None:
    result = tell(bootstrap, topic, "seekByTime", given={"times": TIMES_MS})

    assert result == {"offset": "2", "values": [str(at) for at in TIMES_MS[2:]]}


def test_what_it_administers_is_read_back(bootstrap: str, topic: str) -> None:
    result = tell(bootstrap, topic, "administer")

    assert result == {"retention": "3600000", "largest": "5000", "partitions": 4, "low": "6", "high": "10", "listed": False}
