"""The settings of a broker that are about watching it: its log, its health and metrics over HTTP, its traces."""

from typing import Any

from headrace.model.settings import Kind, Setting, Value


def _fixed(name: str, kind: Kind, default: Value, doc: str, **limits: Any) -> Setting:
    return Setting(name=name, kind=kind, default=default, doc=doc, **limits)


OBSERVATION_SETTINGS = (
    _fixed(
        "headrace.log.format",
        Kind.STRING,
        "human",
        "The format of log lines: human, with colours on a terminal, or json, one object per line.",
        choices=("human", "json"),
    ),
    _fixed("headrace.log.file", Kind.STRING, None, "The file that log lines go to; standard error if not set."),
    _fixed(
        "headrace.log.file.max.bytes",
        Kind.LONG,
        100 * 1024 * 1024,
        "The size at which the log file is rotated to `.1`.",
        minimum=1000,
    ),
    _fixed("headrace.log.files", Kind.INT, 5, "How many rotated log files are kept.", minimum=1),
    _fixed(
        "headrace.log.repeats.max",
        Kind.INT,
        20,
        "How many identical warnings or errors are logged per minute; further ones are only counted. 0: no limit.",
        minimum=0,
    ),
    _fixed(
        "headrace.health.listener",
        Kind.STRING,
        None,
        "The address, HOST:PORT, where `/live` and `/ready` tell over HTTP how the broker is, and where `/metrics` is, too; "
        "none by default.",
    ),
    _fixed(
        "headrace.metrics.listener",
        Kind.STRING,
        None,
        "The address, HOST:PORT, where `/metrics` and `/metrics/detail` are read over HTTP; none by default.",
    ),
    _fixed(
        "headrace.trace.sample.ratio",
        Kind.DOUBLE,
        0.0,
        "Of which part of all requests OpenTelemetry gets spans: 0 for none, 0.01 for one in a hundred, 1 for all.",
        minimum=0,
        maximum=1,
        dynamic=True,
    ),
    _fixed(
        "headrace.trace.otlp.endpoint",
        Kind.STRING,
        None,
        "Where these spans are sent, by OTLP over HTTP: `http://HOST:4318/v1/traces`. If not set, OpenTelemetry's own variables "
        "(`OTEL_EXPORTER_OTLP_ENDPOINT` …) say it.",
    ),
)
