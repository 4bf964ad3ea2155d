"""How a broker's log lines look, and where they go: words for people, or a JSON object a line for machines."""

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler

from headrace.cli.failure import Failure
from headrace.metrics.log_lines import LimitedRepetition, current_request
from headrace.model.broker_settings import BrokerConfig

HUMAN = "%(asctime)s %(levelname)s %(name)s: %(message)s"
COLOURS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[1;31m", "DEBUG": "\x1b[2m"}
PLAIN = "\x1b[0m"
CONTROL = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
ESCAPED = {number: chr(number).encode("unicode_escape").decode() for number in CONTROL}


class HumanLines(logging.Formatter):
    """One line, in colour on a terminal."""

    def __init__(self, *, coloured: bool) -> None:
        super().__init__(HUMAN)
        self._coloured = coloured

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Names come from strangers: none of them begins a line of its own, or steers the terminal."""
        record.message = record.message.translate(ESCAPED)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record) + _left_out(record)
        if name := _request():
            line += f" [{name}]".translate(ESCAPED)
        colour = COLOURS.get(record.levelname) if self._coloured else None
        return f"{colour}{line}{PLAIN}" if colour else line


class Files(RotatingFileHandler):
    """A file that is begun anew when it is full.  Where it cannot be set aside, it grows: no line is lost for that."""

    def doRollover(self) -> None:
        try:
            super().doRollover()
        except OSError:
            self.stream = self.stream or self._open()


class JsonLines(logging.Formatter):
    """One object a line; nothing in it breaks the line."""

    def __init__(self, broker_id: int) -> None:
        super().__init__()
        self._broker_id = broker_id

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "broker": self._broker_id,
            "message": record.getMessage(),
        }
        if (count := getattr(record, "left_out", 0)) > 0:
            facts["left_out"] = count
        if name := _request():
            facts["request"] = name
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False)


def _request() -> str | None:
    request = current_request.get()
    return None if request is None else request.name


def _left_out(record: logging.LogRecord) -> str:
    count = getattr(record, "left_out", 0)
    return f" (and {count:,} more like it, left out)" if count else ""


def set_up_logs(settings: BrokerConfig, *, verbose: bool) -> None:
    """From now on all lines go where the settings say, and nowhere else."""
    handler = _handler(settings)
    as_json = settings["headrace.log.format"] == "json"
    on_terminal = settings["headrace.log.file"] is None and sys.stderr.isatty()
    handler.setFormatter(JsonLines(settings["node.id"]) if as_json else HumanLines(coloured=on_terminal))
    handler.addFilter(LimitedRepetition(settings["headrace.log.repeats.max"]))
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if verbose else logging.INFO, force=True)


def _handler(settings: BrokerConfig) -> logging.Handler:
    path = settings["headrace.log.file"]
    if path is None:
        return logging.StreamHandler(sys.stderr)
    size, files = settings["headrace.log.file.max.bytes"], settings["headrace.log.files"]
    try:
        return Files(path, maxBytes=size, backupCount=files, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise Failure(f"headrace.log.file: {path} cannot be written: {error.strerror or error}.") from None
