"""Prometheus' own parsers read what is written; the referee is theirs, the numbers are ours."""

import pytest

from headrace.metrics.families import Family, counter, gauge, histogram
from headrace.metrics.histogram import LongSeconds, Seconds, Sizes
from headrace.metrics.rendering import Form, form_for, rendered
from headrace.metrics.scrape import Scrape
from tests.support.metrics import Samples, samples_in

REQUESTS = counter("headrace_requests_total", "Requests answered.", "api")
FILES = gauge("headrace_files", "Files.")
TOOK = histogram("headrace_took_seconds", "How long it took.", "api")
SIZE = histogram("headrace_size_bytes", "How large it was.")


def read_back(scrape: Scrape, form: Form) -> Samples:
    return samples_in(b"".join(rendered(scrape, form)).decode(), is_open_metrics=form is Form.OPEN_METRICS)


@pytest.mark.parametrize("form", list(Form))
def test_what_is_written_is_read_back(form: Form) -> None:
    scrape = Scrape()
    scrape.add(FILES, 3)
    scrape.add(REQUESTS, 7, "Produce")
    scrape.add(REQUESTS, 2, "Fetch")

    assert read_back(scrape, form) == {
        ("headrace_files", ()): 3,
        ("headrace_requests_total", (("api", "Produce"),)): 7,
        ("headrace_requests_total", (("api", "Fetch"),)): 2,
    }


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "two\nlines", "ü", "{}", ""])
def test_labels_may_hold_anything(form: Form, name: str) -> None:
    scrape = Scrape()
    scrape.add(REQUESTS, 1, name)

    assert list(read_back(scrape, form)) == [("headrace_requests_total", (("api", name),))]


@pytest.mark.parametrize("form", list(Form))
def test_a_histogram_counts_what_is_at_most_as_large_as_each_bound(form: Form) -> None:
    sizes = Sizes(range(4))
    for size in (1, 2, 2, 3, 8, 9):
        sizes.observe(size)
    scrape = Scrape()
    scrape.add(SIZE, sizes.taken())

    found = read_back(scrape, form)
    buckets = {dict(labels)["le"]: value for (name, labels), value in found.items() if name.endswith("_bucket")}
    assert buckets == {"1.0": 1, "2.0": 3, "4.0": 4, "8.0": 5, "+Inf": 6}
    assert found["headrace_size_bytes_sum", ()] == 25
    assert found["headrace_size_bytes_count", ()] == 6


@pytest.mark.parametrize("kind", [Seconds, LongSeconds])
def test_a_time_lies_below_the_bound_of_its_bucket(kind: type[Seconds]) -> None:
    times = kind()
    values = [0.0, 0.000_01, 0.001, 0.0042, 0.25, 3.0, 900.0]
    for value in values:
        times.observe(value)

    for bound, count in times.taken().cumulative():
        assert count == sum(value < bound for value in values)
    assert times.taken().sum == sum(values)


def test_a_row_may_say_nothing_of_one_of_its_families() -> None:
    other = gauge("headrace_other", "Another.")
    scrape = Scrape()
    scrape.rows(FILES, other).append(((), (None, 4)))

    assert read_back(scrape, Form.TEXT) == {("headrace_other", ()): 4}


def test_openmetrics_is_told_the_unit() -> None:
    scrape = Scrape()
    scrape.add(TOOK, Seconds().taken(), "Fetch")

    assert "# UNIT headrace_took_seconds seconds\n" in b"".join(rendered(scrape, Form.OPEN_METRICS)).decode()


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.TEXT),
        ("*/*", Form.TEXT),
        ("text/html", Form.TEXT),
        ("text/plain;version=0.0.4;q=1", Form.TEXT),
        ("application/openmetrics-text", Form.OPEN_METRICS),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Form.OPEN_METRICS),
        ("application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.5", Form.TEXT),
        ("application/openmetrics-text;version=2.0.0", Form.TEXT),
        ("application/openmetrics-text;q=nonsense", Form.TEXT),
    ],
)
def test_the_asker_gets_the_format_that_it_prefers(accept: str, form: Form) -> None:
    assert form_for(accept) is form


def test_a_name_says_whether_it_only_grows() -> None:
    with pytest.raises(AssertionError):
        Family("headrace_requests", counter("x_total", "X.").kind, "Requests.")
    with pytest.raises(AssertionError):
        gauge("headrace_files_total", "Files.")
