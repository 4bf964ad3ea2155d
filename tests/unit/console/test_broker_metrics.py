"""What the console takes out of brokers' pages of metrics."""

import math
import struct

from headrace.console.watching.broker_metrics import p99, rates, read_page
from headrace.console.watching.group_facts import read_assignment
from headrace.model.identity import TopicPartition

PAGE = """# HELP headrace_produced_bytes_total Bytes of record batches written to partitions that this broker leads.
# TYPE headrace_produced_bytes_total counter
headrace_produced_bytes_total {bytes}
headrace_consumed_bytes_total 5e2
headrace_request_phase_seconds_bucket{{api="Produce",phase="work",le="0.01"}} {fast}
headrace_request_phase_seconds_bucket{{api="Produce",phase="work",le="0.1"}} {all}
headrace_request_phase_seconds_bucket{{api="Produce",phase="work",le="+Inf"}} {all}
headrace_request_phase_seconds_bucket{{api="Metadata",phase="work",le="+Inf"}} 9
"""


def test_rates_and_latency_are_reckoned_from_two_pages() -> None:
    before = {1: read_page(PAGE.format(bytes=1000, fast=0, all=0))}
    after = {1: read_page(PAGE.format(bytes=3000, fast=98, all=100))}

    found = rates(before, after, 2.0)

    assert found["bytes_in"] == 1000.0
    assert found["bytes_out"] == 0.0
    assert 0.01 < found["produce_p99"] < 0.1
    assert "fetch_p99" not in found


def test_a_broker_that_began_anew_does_not_count_backwards() -> None:
    before = {1: read_page(PAGE.format(bytes=9000, fast=50, all=50))}
    after = {1: read_page(PAGE.format(bytes=100, fast=1, all=1)), 2: read_page(PAGE.format(bytes=700, fast=0, all=0))}

    assert rates(before, after, 1.0)["bytes_in"] == 0.0
    assert rates({}, after, 1.0) == {}


def test_a_percentile_lies_within_its_bucket() -> None:
    assert p99({0.1: 100, math.inf: 100}) == 0.099
    assert p99({0.1: 0, 0.2: 0, math.inf: 10}) == 0.2
    assert p99({math.inf: 0}) is None


def test_what_a_member_of_a_classic_group_holds_is_read_and_what_is_something_else_is_not() -> None:
    told = struct.pack(">hi", 0, 1) + struct.pack(">h", 6) + b"orders" + struct.pack(">iii", 2, 3, 1) + struct.pack(">i", -1)

    assert read_assignment(told) == [TopicPartition("orders", 1), TopicPartition("orders", 3)]
    assert read_assignment(b"") == []
    assert read_assignment(b"connect's own bytes, which are no partitions") == []
