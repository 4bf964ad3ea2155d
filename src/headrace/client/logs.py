"""Where the SDK writes what nobody asked for: the loggers `headrace.client` and, for librdkafka's own lines,
`headrace.client.librdkafka`."""

import logging
import re

log = logging.getLogger("headrace.client")
librdkafka_log = logging.getLogger("headrace.client.librdkafka")


_RESET = re.compile(r"(?P<topic>\S+) \[(?P<partition>\d+)\]: offset reset \(at offset (?P<at>-?\d+).*\) to offset (?P<to>\w+)")
_PLACES = {"BEGINNING": "its beginning", "END": "its end"}


class OffsetResets(logging.Handler):
    """What librdkafka reports reaches the caller as an exception, and its lines are for those who configure logging; except this
    one: that a position does not exist, and reading goes on elsewhere, is told nowhere else."""

    def emit(self, record: logging.LogRecord) -> None:
        found = _RESET.search(record.getMessage())
        if found is not None:
            log.warning(
                "%s[%s] has no offset %s (any more, or yet); reading goes on at %s",
                found["topic"],
                found["partition"],
                found["at"],
                _PLACES.get(found["to"], found["to"]),
            )


librdkafka_log.addHandler(OffsetResets(level=logging.WARNING))
