"""Who came in and who was told no, until when certificates hold, and what the audit trail lost."""

from headrace.broker.audit.trail import AuditTrail
from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.metrics.figures import SecurityFigures
from headrace.broker.tls.tls import Tls
from headrace.metrics.families import counter, gauge
from headrace.metrics.scrape import Scrape

SIGN_INS = counter(
    "headrace_sign_ins_total", "Sign-ins by SASL, by mechanism and whether they succeeded or failed.", "mechanism", "outcome"
)
DENIALS = counter(
    "headrace_denials_total", "What somebody was not allowed, by operation and kind of resource.", "operation", "resource"
)
HANDSHAKES = counter("headrace_tls_handshake_failures_total", "TLS handshakes that failed.")
EXPIRY = gauge(
    "headrace_certificate_expiry_seconds", "When the certificate of a listener expires, in seconds since 1970.", "listener"
)
AUDIT_LOST = counter(
    "headrace_audit_lost_events_total",
    "Events of the audit trail that found no room: of the `topic`, or of its `copies` in a file or a syslog, which also count"
    " what could not be written.",
    "of",
)


class SecurityCollector:
    """What was counted at the doors."""

    def __init__(self, figures: SecurityFigures, tls: Tls | None, audit: AuditTrail | None) -> None:
        self._figures = figures
        self._tls = tls
        self._audit = audit

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        if page is not Page.SUMMARY:
            return
        scrape.rows(SIGN_INS).extend((key, (count,)) for key, count in self._figures.sign_ins.items())
        scrape.rows(DENIALS).extend((key, (count,)) for key, count in self._figures.denials.items())
        scrape.add(HANDSHAKES, 0 if self._tls is None else self._tls.handshakes.failed)
        dropped, copies_lost = (0, 0) if self._audit is None else (self._audit.dropped, self._audit.copies_lost)
        scrape.rows(AUDIT_LOST).extend([(("topic",), (dropped,)), (("copies",), (copies_lost,))])
        rows = scrape.rows(EXPIRY)
        for listener, each in self._tls.by_listener.items() if self._tls is not None else ():
            if each.expires_at is not None:
                rows.append(((listener,), (each.expires_at.timestamp(),)))
        yield
