"""The parts of a webhook that decide: patience, filters, signatures, addresses."""

import ipaddress

import pytest

from headrace.gateway.api.shapes import read
from headrace.gateway.serving.problems import Problem
from headrace.gateway.webhooks.engine import rotated
from headrace.gateway.webhooks.filters import Filter
from headrace.gateway.webhooks.guard import Guard
from headrace.gateway.webhooks.patience import FAILURES_TO_OPEN, FIRST_S, LONGEST_S, Breaker, backoff_s, retry_after_s
from headrace.gateway.webhooks.signing import new_secret, signed_headers
from headrace.records.record import Record


def test_pauses_double_and_have_an_end() -> None:
    assert [backoff_s(attempt, 1.0) for attempt in (1, 2, 3)] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S]
    assert backoff_s(100, 1.0) == LONGEST_S
    assert FIRST_S / 2 <= backoff_s(1) <= FIRST_S


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 0),
        ("7", 7),
        ("999999", 3600),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 0),
        ("soon", 0),
        ("-5", 0),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float) -> None:
    assert retry_after_s(header, 60.0) == seconds


def test_a_breaker_opens_lets_one_look_and_closes() -> None:
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN):
        assert breaker.wait_s(0.0) == 0
        breaker.failed(0.0)

    assert breaker.wait_s(1.0) > 0
    later = breaker.opens_at + 1
    assert (breaker.wait_s(later), breaker.wait_s(later)) == (0, FIRST_S)
    breaker.failed(later)
    assert breaker.wait_s(later) > 5
    breaker.succeeded()
    assert breaker.wait_s(later) == 0


@pytest.mark.parametrize(
    ("filter", "wanted"),
    [
        ({}, True),
        ({"key": {"equals": "ann"}}, True),
        ({"key": {"prefix": "b"}}, False),
        ({"headers": {"kind": {"equals": "sale"}}}, True),
        ({"headers": {"missing": {"exists": True}}}, False),
        ({"headers": {"missing": {"exists": False}}}, True),
        ({"fields": {"/total": {"above": 10}}}, True),
        ({"fields": {"/total": {"above": 10, "below": 12}}}, False),
        ({"fields": {"/items/1/a~1b": {"equals": 2}}}, True),
        ({"fields": {"/items/9": {"exists": True}}}, False),
        ({"key": {"equals": "ann"}, "fields": {"/total": {"one_of": [1, 2]}}}, False),
    ],
)
def test_all_conditions_have_to_hold(filter: dict[str, object], wanted: bool) -> None:
    record = Record(0, 0, b"ann", b'{"total": 12.5, "items": [1, {"a/b": 2}]}', (("kind", b"sale"),))

    assert read(Filter, filter).wants(record) is wanted


def test_a_value_that_is_no_json_has_no_fields() -> None:
    assert not read(Filter, {"fields": {"/a": {"exists": True}}}).wants(Record(0, 0, None, b"text"))
    with pytest.raises(Problem, match="JSON pointers"):
        read(Filter, {"fields": {"a": {}}}).check()


def test_signatures_are_those_of_the_specification() -> None:
    """The example of the Standard Webhooks libraries."""
    headers = signed_headers(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )

    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert new_secret() != new_secret()


def test_a_rotated_secret_is_good_for_a_day() -> None:
    kept = rotated([{"secret": "old", "until": None}, {"secret": "ancient", "until": 50.0}], "new", 100.0)

    assert [(each["secret"], each["until"]) for each in kept] == [("new", None), ("old", 100.0 + 24 * 3600)]


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("::ffff:169.254.169.254", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("2002:7f00:1::", False),
        ("192.168.7.7", True),
        ("::ffff:192.168.7.7", True),
    ],
)
def test_only_public_addresses_and_named_networks_are_allowed(address: str, allowed: bool) -> None:
    assert Guard(["192.168.7.0/24"], plain_http=False).allows(ipaddress.ip_address(address)) is allowed


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0177.0.0.1", "0x7f.1", "0x7f000001", "0", "127.0.0.1.", "127.0.0.01"])
def test_an_address_that_is_not_written_in_full_is_refused(host: str) -> None:
    with pytest.raises(Problem, match="not written in full"):
        Guard([], plain_http=True).check_url(f"http://{host}:8080/")


@pytest.mark.parametrize("host", ["a1.example", "1.example", "0x7f.example", "1-2-3-4.example.", "8.8.8.8", "[2606:4700::1111]"])
def test_a_name_with_numbers_in_it_is_a_name(host: str) -> None:
    Guard([], plain_http=True).check_url(f"http://{host}:8080/")


@pytest.mark.parametrize("address", ["168.63.129.16", "192.0.0.192", "192.0.0.8", "fec0::1", "::ffff:168.63.129.16"])
def test_what_only_a_cloud_or_a_site_reaches_is_not_public(address: str) -> None:
    assert not Guard([], plain_http=True).allows(ipaddress.ip_address(address))
    assert Guard([address], plain_http=True).allows(ipaddress.ip_address(address))
