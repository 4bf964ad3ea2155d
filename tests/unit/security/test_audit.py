"""Audit: events that machines can read, without secrets, and never a flood."""

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.access.acls import Operation
from headrace.model.access.principals import Principal, Subject, group, user
from headrace.model.errors import ErrorCode
from headrace.security.audit.aggregation import Aggregator, Batch
from headrace.security.audit.events import (
    RESOURCES_MAX,
    TEXT_CHARACTERS_MAX,
    Activity,
    EventMaker,
    Origin,
    Repeats,
    Resource,
    ValueChange,
)
from headrace.security.audit.redaction import HIDDEN, is_secret_name, redacted, redacted_text
from headrace.wire.apis import ApiKey

NUMBERS = itertools.count(1)
MAKER = EventMaker("1.0", "broker 1", lambda: f"event {next(NUMBERS)}")
ORIGIN = Origin(
    subject=Subject(user("ann"), [group("ops")], "10.0.0.1"),
    port=50123,
    listener="SASL_SSL",
    client_id="app",
    software="rdkafka 2.1",
)
TOPIC = Resource("TOPIC", "orders")

# What OCSF 1.3 requires of every event, and of each class.
REQUIRED = {"activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"}
REQUIRED_OF = {6003: {"actor", "api", "src_endpoint"}, 3002: {"user", "service"}}


def read(line: bytes) -> dict[str, Any]:
    assert b"\n" not in line
    event: dict[str, Any] = json.loads(line)
    assert REQUIRED | REQUIRED_OF[event["class_uid"]] <= set(event)
    assert event["type_uid"] == event["class_uid"] * 100 + event["activity_id"]
    assert event["category_uid"] == event["class_uid"] // 1000
    assert {"version", "product"} <= set(event["metadata"])
    return event


def test_an_act_says_who_from_where_what_and_from_which_value_to_which() -> None:
    event = read(
        MAKER.act(
            ORIGIN,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            Activity.UPDATE,
            [TOPIC],
            time_ms=1000,
            changes=[ValueChange("retention.ms", "1", "2"), ValueChange("cleanup.policy", None, "compact")],
        )
    )

    assert event["actor"]["user"] == {"name": "ann", "uid": "User:ann", "type": "User", "groups": [{"name": "ops"}]}
    assert event["src_endpoint"] == {"ip": "10.0.0.1", "port": 50123}
    assert event["api"]["operation"] == "IncrementalAlterConfigs"
    assert event["resources"] == [{"type": "TOPIC", "name": "orders"}]
    assert (event["class_uid"], event["activity_id"], event["status_id"], event["time"]) == (6003, 3, 1, 1000)
    assert (event["actor"]["app_name"], event["unmapped"]["client_id"]) == ("app", "app")
    assert event["unmapped"]["client_software"] == "rdkafka 2.1"
    assert event["unmapped"]["changes"] == [
        {"name": "retention.ms", "before": "1", "after": "2"},
        {"name": "cleanup.policy", "before": None, "after": "compact"},
    ]


def test_an_act_that_failed_says_why() -> None:
    event = read(
        MAKER.act(
            ORIGIN,
            ApiKey.DELETE_TOPICS,
            Activity.DELETE,
            [TOPIC],
            time_ms=0,
            error=ErrorCode.NOT_CONTROLLER,
            detail="ask another",
        )
    )

    assert (event["status_id"], event["status_code"], event["status_detail"]) == (2, "NOT_CONTROLLER", "ask another")


def test_a_denial_names_the_rule_and_how_often_it_was() -> None:
    event = read(
        MAKER.denial(
            ORIGIN,
            ApiKey.PRODUCE,
            Operation.WRITE,
            TOPIC,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "no: no rule allows it",
            Repeats(count=7, first_ms=10, last_ms=20),
        )
    )

    assert (event["count"], event["start_time"], event["end_time"], event["time"]) == (7, 10, 20, 20)
    assert event["status_detail"] == "no: no rule allows it"
    assert event["unmapped"]["operation"] == "WRITE"
    assert event["severity_id"] == 3


@pytest.mark.parametrize(("mechanism", "number"), [("PLAIN", 11), ("OAUTHBEARER", 6), ("SCRAM-SHA-256", 99), ("SSL", 99)])
def test_a_sign_in_names_its_mechanism(mechanism: str, number: int) -> None:
    event = read(MAKER.sign_in(ORIGIN, mechanism, time_ms=5))

    assert (event["auth_protocol"], event["auth_protocol_id"], event["status_id"]) == (mechanism, number, 1)
    assert event["user"]["uid"] == "User:ann"


def test_a_failed_sign_in_says_why() -> None:
    event = read(MAKER.sign_in(ORIGIN, "PLAIN", time_ms=5, failure="wrong", repeats=Repeats(count=3, first_ms=1, last_ms=5)))

    assert (event["status_id"], event["status_code"], event["count"]) == (2, "SASL_AUTHENTICATION_FAILED", 3)


def test_every_event_has_its_own_number_by_which_one_that_was_written_twice_is_known() -> None:
    first, second = (read(MAKER.sign_in(ORIGIN, "PLAIN", time_ms=5))["metadata"]["uid"] for _ in range(2))

    assert first != second


def test_what_was_left_out_is_told() -> None:
    assert read(MAKER.dropped(12, time_ms=0))["count"] == 12
    many = [Resource("TOPIC", f"t{number}") for number in range(RESOURCES_MAX + 5)]
    event = read(MAKER.act(ORIGIN, ApiKey.CREATE_TOPICS, Activity.CREATE, many, time_ms=0))
    assert len(event["resources"]) == RESOURCES_MAX
    assert event["unmapped"]["resources_left_out"] == 5


ANY_TEXT = st.text(max_size=30)


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_whatever_names_there_are_an_event_is_one_line_of_json(name: str, topic: str, client: str) -> None:
    origin = Origin(subject=Subject(Principal("User", name), [], client), client_id=client)

    read(MAKER.act(origin, ApiKey.CREATE_TOPICS, Activity.CREATE, [Resource("TOPIC", topic)], time_ms=0, detail=topic))
    read(MAKER.sign_in(origin, client, time_ms=0, failure=topic))


def test_a_name_cannot_add_a_line_or_a_field() -> None:
    evil = 'x","status_id":1}\n{"class_uid":3002'

    event = read(MAKER.act(ORIGIN, ApiKey.CREATE_TOPICS, Activity.CREATE, [Resource("TOPIC", evil)], time_ms=0))

    assert event["resources"][0]["name"] == evil


def test_long_texts_are_cut() -> None:
    line = MAKER.act(ORIGIN, ApiKey.CREATE_TOPICS, Activity.CREATE, [Resource("GROUP", "x" * 32_000)], time_ms=0)

    assert len(line) < TEXT_CHARACTERS_MAX + 2000


PLANTED = "pl4nted-s3cret"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.keystore.password", PLANTED),
        ("ssl.key.password", PLANTED),
        ("listener.name.sasl.scram-sha-256.sasl.jaas.config", f'ScramLoginModule required username="a" password="{PLANTED}";'),
        ("sasl.jaas.config", PLANTED),
        ("sasl.oauthbearer.client.credentials.client.secret", PLANTED),
        ("ssl.keystore.key", PLANTED),
        ("salted_password", PLANTED.encode()),
        ("SCRAM-SHA-512", f"[iterations=8192,password={PLANTED}]"),
        ("anything", f"SCRAM-SHA-512=[iterations=8192,password={PLANTED}]"),
        ("anything", f"password: {PLANTED}"),
        ("anything", f'{{"password": "{PLANTED}"}}'),
        ("anything", f"https://ann:{PLANTED}@host/path"),
        ("anything", f"Authorization: Bearer {PLANTED}"),
        ("anything", f"-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----"),
        ("anything", f"-----BEGIN EC PRIVATE KEY-----\n{PLANTED}"),
        ("anything", {"nested": {"password": PLANTED, "list": [{"secret": PLANTED}]}}),
        ("password", [PLANTED, {"a": PLANTED}]),
    ],
)
def test_a_secret_is_in_no_event(name: str, value: object) -> None:
    line = MAKER.act(
        ORIGIN,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        Activity.UPDATE,
        [TOPIC],
        time_ms=0,
        detail=str(value) if name == "anything" else "",
        changes=[ValueChange(name, value, value)],
    )

    assert PLANTED.encode() not in line
    assert line.count(HIDDEN.encode()) >= 2 or isinstance(value, bytes)
    read(line)


def test_a_token_is_in_no_event() -> None:
    line = MAKER.sign_in(ORIGIN, "OAUTHBEARER", time_ms=0, failure=f"cannot read {JWT}")

    assert b"eyJ" not in line


@pytest.mark.parametrize("name", ["retention.ms", "key", "client_id", "token_id", "sasl.oauthbearer.token.endpoint.url", "user"])
def test_what_is_no_secret_is_shown(name: str) -> None:
    assert not is_secret_name(name)
    assert redacted("value", name) == "value"


def test_redaction_keeps_the_shape_of_what_is_no_secret() -> None:
    assert redacted({"a": [1, 2.5, True, None, "x"], "b": b"abc"}) == {"a": [1, 2.5, True, None, "x"], "b": "3 bytes"}
    assert redacted_text("the password was changed") == "the password was changed"


@given(
    st.text(alphabet="abcdef0123456789", min_size=8, max_size=20), st.sampled_from(["password={}", "token: {}", 'secret="{}"'])
)
def test_a_secret_beside_its_name_is_always_hidden(secret: str, shape: str) -> None:
    assert secret not in redacted_text(f"before {shape.format(secret)} after").replace("before", "").replace("after", "")


@pytest.mark.parametrize("text", ["://:", "://x:", "-eyJ", "-eyJaaaaa", 'password="', "bearer ", "-----BEGIN ", "SCRAM-SHA-1"])
def test_a_text_made_to_be_slow_to_look_through_is_not(text: str) -> None:
    """It may be the name of one who did not get in, and is looked through on the loop."""
    began = time.process_time()

    redacted_text(text * (64_000 // len(text)))

    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    "text",
    [
        "x-eyJhbGciOi.eyJzdWIi.c2ln",
        "eyJab.eyJhbGciOi.eyJzdWIi",
        "a://b:c://user:eyJzdWIi@host",
        "://a:eyJzdWIi@b ://c:d",
    ],
)
def test_a_secret_is_hidden_amid_what_looks_like_the_beginning_of_another(text: str) -> None:
    assert HIDDEN in redacted_text(text)
    assert "eyJzdWIi" not in redacted_text(text)


def test_the_first_is_told_at_once_and_those_like_it_together() -> None:
    denials: Aggregator[str] = Aggregator(window_ms=1000)
    denials.add("a", "one", 0)
    assert denials.due(0) == [Batch("one", 1, 0, 0)]
    for moment in (10, 20, 30):
        denials.add("a", f"at {moment}", moment)
    denials.add("b", "other", 30)

    assert denials.due(40) == [Batch("other", 1, 30, 30)]
    assert denials.due(999) == []
    assert denials.due(1000) == [Batch("at 30", 3, 10, 30)]
    assert denials.due(1001) == []


def test_a_kind_that_has_become_quiet_is_forgotten() -> None:
    denials: Aggregator[str] = Aggregator(window_ms=1000, kinds_max=1)
    denials.add("a", "a", 0)
    denials.due(0)
    denials.due(1000)

    denials.add("b", "b", 1001)

    assert denials.due(1001) == [Batch("b", 1, 1001, 1001)]
    assert denials.dropped == 0


def test_there_is_a_bound_and_what_is_beyond_it_is_counted() -> None:
    denials: Aggregator[int] = Aggregator(kinds_max=10)

    for number in range(1000):
        denials.add(number, number, 0)
    denials.add(3, 3, 1)

    assert len(denials.due(1)) == 10
    assert (denials.take_dropped(), denials.take_dropped(), denials.dropped) == (990, 0, 990)


def test_one_who_asks_for_a_thousand_names_does_not_keep_others_from_being_told_of() -> None:
    denials: Aggregator[str] = Aggregator(kinds_max=20, kinds_of_one_max=3, window_ms=1000)

    for number in range(1000):
        denials.add(("eve", number), f"eve {number}", number, owner="eve")
    denials.add(("ann", 1), "ann", 1000, owner="ann")
    told = denials.due(1000)

    assert [(batch.sample, batch.count) for batch in told] == [
        ("eve 0", 1),
        ("eve 1", 1),
        ("eve 2", 1),
        ("eve 999", 997),
        ("ann", 1),
    ]
    assert denials.dropped == 0
    assert (denials.due(2000), denials.is_empty) == ([], True)
    denials.add(("eve", 5), "eve 5", 2001, owner="eve")
    assert [batch.sample for batch in denials.due(2001)] == ["eve 5"]


def test_of_acts_that_are_alike_the_first_is_told_by_whoever_did_it_and_the_others_together() -> None:
    acts: Aggregator[str] = Aggregator(window_ms=1000, kinds_max=1)

    assert acts.is_first("a", "one", 0)
    assert not acts.is_first("a", "two", 10)
    assert not acts.is_first("a", "three", 20)
    assert acts.is_first("b", "no room to remember it", 20)

    assert acts.due(999) == []
    assert acts.due(1000) == [Batch("three", 2, 10, 20)]


def test_one_whose_acts_are_of_a_thousand_kinds_does_not_keep_others_from_being_told_of() -> None:
    acts: Aggregator[str] = Aggregator(window_ms=1000, kinds_max=5, kinds_of_one_max=2)

    told = [acts.is_first(("ann", n), f"ann {n}", n, owner="ann") for n in range(10)]
    acts.add("denied", "eve is denied", 10, owner="eve")

    assert told == [True, True, True, *[False] * 7]
    assert acts.dropped == 0
    assert [batch.sample for batch in acts.due(10)] == ["eve is denied"]
    assert [(batch.sample, batch.count) for batch in acts.due(1100)] == [("ann 9", 7)]


def test_at_the_end_the_rest_is_told() -> None:
    denials: Aggregator[str] = Aggregator(window_ms=1000)
    denials.add("a", "a", 0)
    denials.due(0)
    denials.add("a", "a", 5)

    assert denials.take_all() == [Batch("a", 1, 5, 5)]
    assert denials.take_all() == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 500), st.booleans()), max_size=60))
def test_nothing_is_lost_or_told_twice(steps: list[tuple[int, int, bool]]) -> None:
    denials: Aggregator[int] = Aggregator(window_ms=300, kinds_max=3)
    now, told = 0, 0

    for key, elapsed, asks in steps:
        now += elapsed
        denials.add(key, key, now)
        if asks:
            told += sum(batch.count for batch in denials.due(now))
    told += sum(batch.count for batch in denials.take_all())

    assert told + denials.dropped == len(steps)
