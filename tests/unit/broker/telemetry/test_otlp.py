"""What clients push is OpenTelemetry's protobuf; what is not ends in one kind of error, and never in a long loop."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.telemetry.otlp import LABELS_MAX, POINTS_MAX, TEXT_MAX, Point, points_in
from tests.support.otlp import field, gauge, label, metrics_data, point, total, varint


def test_gauges_and_sums_are_read_with_their_labels() -> None:
    data = metrics_data(
        gauge("a.gauge", point(1.5, label("node_id", "3"))),
        total("a.total", point(7, label("topic", "t"), label("partition", 4))),
        total("a.delta", point(2), is_delta=True),
        total("a.level", point(-5), only_grows=False),
    )

    assert points_in(data) == [
        Point("a.gauge", (("node_id", "3"),), 1.5, False, False),
        Point("a.total", (("topic", "t"), ("partition", "4")), 7, True, False),
        Point("a.delta", (), 2, True, True),
        Point("a.level", (), -5, False, False),
    ]


def test_the_kind_of_a_sum_may_stand_before_its_points() -> None:
    points = field(1, point(1))
    metric = field(1, b"m") + field(7, field(3, 1) + points + field(2, 1))

    assert points_in(field(1, field(2, field(2, metric)))) == [Point("m", (), 1, True, True)]


def test_values_of_labels_are_texts_whatever_they_were() -> None:
    values: list[tuple[bytes, str]] = [
        (field(1, b"text"), "text"),
        (field(2, 1), "1"),
        (field(3, (1 << 64) - 3), "-3"),
        (varint(4 << 3 | 1) + struct.pack("<d", 0.5), "0.5"),
        (field(5, b""), ""),
    ]
    for value, text in values:
        given = field(1, b"key") + field(2, value)
        assert points_in(metrics_data(gauge("m", point(1, given))))[0].labels == (("key", text),)


def test_histograms_and_what_else_there_is_are_passed_over() -> None:
    histogram = field(1, b"h") + field(9, field(1, b""))

    assert points_in(metrics_data(histogram, gauge("m", point(1)))) == [Point("m", (), 1, False, False)]


def test_a_number_without_a_name_or_a_value_is_none() -> None:
    assert points_in(metrics_data(field(5, field(1, point(1))), gauge("m", b""))) == []


def test_reading_ends_after_so_many_points() -> None:
    data = metrics_data(gauge("m", *[point(1)] * (2 * POINTS_MAX)))

    assert len(points_in(data)) == POINTS_MAX


def test_long_texts_are_cut() -> None:
    (found,) = points_in(metrics_data(gauge("n" * 10_000, point(1, label("k" * 10_000, "v" * 10_000)))))

    assert [len(found.metric), *map(len, found.labels[0])] == [TEXT_MAX] * 3


def test_a_point_keeps_so_many_labels() -> None:
    (found,) = points_in(metrics_data(gauge("m", point(1, *(label(f"k{number}", "v") for number in range(1000))))))

    assert len(found.labels) == LABELS_MAX


WHOLE = metrics_data(gauge("a", point(1.5, label("topic", "t"))), total("b", point(3)))


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_cut_anywhere_it_is_refused_or_holds_less(size: int) -> None:
    with contextlib.suppress(ValueError):
        assert len(points_in(WHOLE[:size])) < 2


@pytest.mark.parametrize(
    "data",
    [
        b"\x0b",  # a group, which nobody uses any more
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a size of eleven bytes
        b"\x0a\x7f",
        b"\x09\x00",
        b"\x80",
        metrics_data(gauge("m", varint(4 << 3 | 5) + b"1234")),  # a number of four bytes where eight belong
        metrics_data(gauge("m", varint(6 << 3 | 5) + b"1234")),
        metrics_data(gauge("m", point(1, field(1, b"key") + field(2, varint(4 << 3 | 5) + b"1234")))),
    ],
)
def test_what_is_no_protobuf_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        points_in(data)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for attempt in (data, field(1, field(2, field(2, data))), field(1, field(2, field(2, field(1, b"m") + field(7, data))))):
        with contextlib.suppress(ValueError):
            points_in(attempt)
