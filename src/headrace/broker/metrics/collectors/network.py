"""Connections and requests; on the page of details, by client."""

from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.metrics.figures import NetworkFigures
from headrace.broker.network.server import Server
from headrace.metrics.families import counter, gauge, histogram
from headrace.metrics.scrape import Scrape
from headrace.model.errors import ErrorCode
from headrace.wire.apis import api_name

REQUESTS = counter("headrace_requests_total", "Requests answered, by API.", "api")
ERRORS = counter(
    "headrace_request_errors_total",
    "Errors told in replies, by API and error: one for each partition, topic or group that had one.",
    "api",
    "error",
)
SECONDS = histogram(
    "headrace_request_phase_seconds",
    "Time that requests spent in each phase: queue (received, not started), work (begun, on the event loop), wait (for a flush, "
    "replicas, new records or other members) and send (answered, behind earlier replies).",
    "api",
    "phase",
)
IN_FLIGHT = gauge("headrace_requests_in_flight", "Requests started and not answered: most of them wait for something.", "api")
GIVEN_UP = counter("headrace_requests_given_up_total", "Requests whose connection ended before their reply was sent.", "api")
UNREADABLE = counter(
    "headrace_requests_unreadable_total", "Requests that could not be read or are not served; each ends its connection."
)
FAILED = counter("headrace_requests_failed_total", "Requests that failed inside the broker; the log tells why.")
CONNECTIONS = gauge("headrace_connections", "Open connections.", "listener")
OPENED = counter("headrace_connections_opened_total", "Connections that were let in.", "listener")
REFUSED = counter("headrace_connections_refused_total", "Connections refused: too many, or made too fast.")
CUT_OFF = counter("headrace_connections_cut_off_total", "Connections that the broker ended for what they did; the log tells why.")
RECEIVED = counter("headrace_network_received_bytes_total", "Bytes received over all connections.")
SENT = counter("headrace_network_sent_bytes_total", "Bytes of replies sent over all connections.")
MEMORY = gauge("headrace_connections_memory_bytes", "Memory that requests and replies of connections hold.", "kind")
MEMORY_MAX = gauge("headrace_connections_memory_limit_bytes", "Memory that they may hold (headrace.connections.bytes.max).")
THROTTLED = counter(
    "headrace_throttled_seconds_total", "Time for which clients were told to wait, by the quota they used up.", "quota"
)
SPANS = counter("headrace_trace_spans_total", "Requests of which spans were made for OpenTelemetry.")
SPANS_DROPPED = counter("headrace_trace_spans_dropped_total", "Sampled requests without spans: there were too many at a time.")

CLIENT = ("client_id", "user")
CLIENT_CONNECTIONS = gauge("headrace_client_connections", "Open connections of a client.", *CLIENT)
CLIENT_REQUESTS = counter("headrace_client_requests_total", "Requests of a client.", *CLIENT)
CLIENT_RECEIVED = counter("headrace_client_received_bytes_total", "Bytes received from a client.", *CLIENT)
CLIENT_SENT = counter("headrace_client_sent_bytes_total", "Bytes of replies sent to a client.", *CLIENT)


class NetworkCollector:
    """What the server and the dispatcher counted."""

    def __init__(self, figures: NetworkFigures, server: Server) -> None:
        self._figures = figures
        self._server = server

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        if page is Page.DETAIL:
            yield from self._clients(scrape)
            return
        self._requests(scrape)
        yield
        yield from self._connections(scrape)

    def _requests(self, scrape: Scrape) -> None:
        rows, phases = scrape.rows(REQUESTS, IN_FLIGHT, GIVEN_UP), scrape.rows(SECONDS)
        scrape.rows(ERRORS)
        for key, api in self._figures.by_api.items():
            name = api_name(key)
            if api.started:
                rows.append(((name,), (api.sent, api.started - api.sent - api.given_up, api.given_up)))
            if api.sent:
                phases += [((name, phase), (api.phase(phase),)) for phase in api.PHASES]
            for code, count in api.errors.items():
                scrape.add(ERRORS, count, name, ErrorCode(code).name)
        scrape.add(UNREADABLE, self._figures.unreadable)
        scrape.add(FAILED, self._figures.failed)
        scrape.add(SPANS, self._figures.traces.spans)
        scrape.add(SPANS_DROPPED, self._figures.traces.dropped)

    def _connections(self, scrape: Scrape) -> Collecting:
        figures, server = self._figures, self._server
        open_now = dict.fromkeys(figures.opened, 0)
        received, sent = figures.received_bytes, figures.sent_bytes
        for connection in list(server.connections):
            open_now[connection.listener] = open_now.get(connection.listener, 0) + 1
            received += connection.figures.received_bytes
            sent += connection.figures.sent_bytes
            yield
        rows = scrape.rows(CONNECTIONS, OPENED)
        for listener, count in open_now.items():
            rows.append(((listener,), (count, figures.opened[listener])))
        scrape.add(REFUSED, figures.refused)
        scrape.add(CUT_OFF, figures.cut_off)
        scrape.add(RECEIVED, received)
        scrape.add(SENT, sent)
        scrape.add(MEMORY, server.memory.requests, "requests")
        scrape.add(MEMORY, server.memory.replies, "replies")
        scrape.add(MEMORY_MAX, server.memory.limit)
        scrape.rows(THROTTLED)
        for quota, seconds in figures.throttled.items():
            scrape.add(THROTTLED, seconds, quota)

    def _clients(self, scrape: Scrape) -> Collecting:
        found: dict[tuple[str, str], list[int]] = {}
        for key, gone in self._figures.gone.items():
            found[key] = [0, gone.requests, gone.received_bytes, gone.sent_bytes]
        yield
        for connection in list(self._server.connections):
            if connection.figures.requests:
                counts = found.setdefault((connection.figures.client_id, connection.principal.name), [0, 0, 0, 0])
                counts[0] += 1
                counts[1] += connection.figures.requests
                counts[2] += connection.figures.received_bytes
                counts[3] += connection.figures.sent_bytes
            yield
        scrape.rows(CLIENT_CONNECTIONS, CLIENT_REQUESTS, CLIENT_RECEIVED, CLIENT_SENT).extend(found.items())
