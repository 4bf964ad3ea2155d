"""What clients tell of themselves (KIP-714): their latencies, retries and queues, as they see them."""

from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.telemetry.instances import KEPT_LABELS, Instance
from headrace.broker.telemetry.telemetry import ClientTelemetry
from headrace.metrics.families import counter, gauge
from headrace.metrics.scrape import Scrape
from headrace.model.errors import ErrorCode

INSTANCES = gauge("headrace_client_telemetry_instances", "Clients that this broker asks for their own metrics, or would.")
SERIES = gauge("headrace_client_telemetry_series", "Series of these clients that are kept.")
PUSHES = counter("headrace_client_telemetry_pushes_total", "Times that clients told their metrics, by how that ended.", "outcome")
DROPPED = counter("headrace_client_telemetry_dropped_total", "Numbers of clients that were not kept: there were too many series.")

ONE = ("client_id", "client_instance", "metric", *KEPT_LABELS)
VALUE = gauge("headrace_client_metric", "A number that a client tells of itself, under the name that KIP-714 gives it.", *ONE)
TOTAL = counter("headrace_client_counter_total", "The same for numbers that only grow while the client runs.", *ONE)


class ClientTelemetryCollector:
    """All clients that were heard of lately."""

    def __init__(self, telemetry: ClientTelemetry) -> None:
        self._telemetry = telemetry

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        instances = self._telemetry.instances
        instances.forget_silent(self._telemetry.now_ms())
        return self._one_by_one(scrape) if page is Page.DETAIL else self._summary(scrape)

    def _summary(self, scrape: Scrape) -> Collecting:
        telemetry = self._telemetry
        scrape.add(INSTANCES, len(telemetry.instances))
        scrape.add(SERIES, telemetry.instances.series_count)
        scrape.add(DROPPED, telemetry.instances.dropped)
        scrape.rows(PUSHES)
        for code, count in telemetry.pushes.items():
            scrape.add(PUSHES, count, "accepted" if code is ErrorCode.NONE else code.name)
        yield

    def _one_by_one(self, scrape: Scrape) -> Collecting:
        scrape.rows(VALUE), scrape.rows(TOTAL)
        for instance in self._telemetry.instances:
            self._tell(scrape, instance)
            yield

    def _tell(self, scrape: Scrape, instance: Instance) -> None:
        named = instance.client["client_id"], str(instance.instance_id)
        for (metric, labels), series in instance.series.items():
            known = dict(labels)
            family = TOTAL if series.only_grows else VALUE
            scrape.add(family, series.value, *named, metric, *(known.get(name, "") for name in KEPT_LABELS))
