"""A pipeline as a person writes it: a TOML file that names a transform, a source, sinks and when to run.

    name = "windowed-statistics"
    transform = "windowed_statistics.py"      # beside this file; holds transform(frame, settings) -> frame
    checkpoint = "checkpoints/windowed-statistics"
    [source]
    subscribe = "orders"
    [sinks.topic]
    topic = "orders.statistics"
    [trigger]
    every = "4 minutes"                       # or available_now = true, or batch = true

docs/pipelines.md has every key.  Whatever is misspelt is named with the nearest right key.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.spark.errors import PipelineError

TOP_KEYS = (
    "name",
    "description",
    "transform",
    "bootstrap",
    "profile",
    "checkpoint",
    "source",
    "sinks",
    "trigger",
    "watermark",
    "schema",
    "dead_letter",
    "settings",
    "spark",
)
TRIGGER_KEYS = ("every", "available_now", "batch")
WATERMARK_KEYS = ("column", "delay")
SCHEMA_KEYS = ("format", "fields", "required", "time", "future_max")
DEAD_LETTER_KEYS = ("topic",)
SINK_KEYS = ("format", "key", "encode", "partition_by", "path", "merge_after", "output_mode", "options")
FORMATS = ("headrace", "parquet", "report")
Brokers = Mapping[str, Any]  # the options that say where they are and how to connect


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a batch runs: every so often, once over what is there, or as a plain batch job without a checkpoint."""

    every: str | None = None
    available_now: bool = False
    batch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """How late an event may come, by its own time."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """How values are read.  A record that does not fit goes to the dead-letter topic."""

    fields: str
    required: tuple[str, ...]
    time: str | None
    future_max: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """One place that results go to."""

    name: str
    format: str
    options: Mapping[str, str]
    path: str | None = None
    key: str | None = None
    encode: str | None = None
    partition_by: tuple[str, ...] = ()
    merge_after: int = 0
    output_mode: str = "append"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFile:
    """A whole pipeline, checked."""

    path: Path
    name: str
    description: str
    transform: str
    checkpoint: str | None
    source_format: str
    source: Mapping[str, str]
    sinks: tuple[Sink, ...]
    trigger: Trigger
    watermark: Watermark | None
    schema: Schema | None
    dead_letter_topic: str | None
    settings: Mapping[str, Any]
    spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def streaming(self) -> bool:
        return not self.trigger.batch


def load_pipeline_file(
    path: Path, overrides: Mapping[str, str] | None = None, bootstrap: str | None = None, profile: str | None = None
) -> PipelineFile:
    """Read and check a pipeline file.  Overrides are `section.key` to value; `bootstrap` and `profile` replace the file's own."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path} is not TOML: {error}") from None
    for dotted, value in (overrides or {}).items():
        _override(document, dotted, value)
    if profile is not None:
        # Where its brokers are is part of a profile.
        document.pop("bootstrap", None)
        document["profile"] = profile
    if bootstrap is not None:
        document["bootstrap"] = bootstrap
    return _checked(path, document)


def _override(document: dict[str, Any], dotted: str, value: str) -> None:
    """`source.kafka.isolation.level=…` sets that key of [source]; `settings.limit=3` keeps the type that the file's value has."""
    section, _, rest = dotted.partition(".")
    if section == "sinks":
        name, _, rest = rest.partition(".")
        target = document.setdefault("sinks", {}).setdefault(name, {})
    elif rest:
        target = document.setdefault(section, {})
    else:
        target, rest = document, section
    if not rest or not isinstance(target, dict):
        raise PipelineError(
            f"'{dotted}' names no key of a pipeline file; say section.key=value, such as trigger.every='10 seconds'"
        )
    if section == "trigger":
        target.clear()  # the ways to trigger exclude each other
    target[rest] = _typed(value, target.get(rest))


def _typed(value: str, before: Any) -> Any:
    if isinstance(before, bool) or value in ("true", "false"):
        return value == "true"
    if isinstance(before, int | float) or (before is None and value.isdigit()):
        try:
            return type(before)(value) if before is not None else int(value)
        except ValueError:
            return value
    return [part.strip() for part in value.split(",")] if isinstance(before, list) else value


def _checked(path: Path, document: dict[str, Any]) -> PipelineFile:
    _check_keys(path, "the file", document, TOP_KEYS)
    for required in ("name", "transform", "source", "sinks"):
        if not document.get(required):
            raise PipelineError(f"{path} lacks '{required}'")
    brokers = {"kafka.bootstrap.servers": document.get("bootstrap"), "profile": document.get("profile")}
    source_format, source = _options(document["source"], brokers)
    sinks = tuple(_sink(path, name, body, brokers) for name, body in document["sinks"].items())
    trigger = _trigger(path, document.get("trigger", {}))
    checkpoint = document.get("checkpoint")
    if not trigger.batch and checkpoint is None:
        raise PipelineError(f"{path} lacks 'checkpoint': a stream keeps its position there")
    schema = _schema(path, document.get("schema"))
    dead_letter = document.get("dead_letter", {})
    _check_keys(path, "[dead_letter]", dead_letter, DEAD_LETTER_KEYS)
    return PipelineFile(
        path=path,
        name=str(document["name"]),
        description=str(document.get("description", "")),
        transform=str(document["transform"]),
        checkpoint=None if checkpoint is None else str(checkpoint),
        source_format=source_format,
        source=source,
        sinks=sinks,
        trigger=trigger,
        watermark=_watermark(path, document.get("watermark")),
        schema=schema,
        dead_letter_topic=str(dead_letter.get("topic", "{topic}.dead-letter")) if schema is not None else None,
        settings=dict(document.get("settings", {})),
        spark={name: str(value) for name, value in _flat(document.get("spark", {}))},
    )


def _options(section: Mapping[str, Any], brokers: Brokers) -> tuple[str, dict[str, str]]:
    """A source's or sink's format and its options, with the brokers' address and profile where none is given."""
    options = {name: _text(value) for name, value in _flat(section)}
    kind = options.pop("format", "headrace")
    if kind == "headrace":
        for name, value in brokers.items():
            if value is not None:
                options.setdefault(name, str(value))
    return kind, options


def _flat(section: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """TOML reads `kafka.isolation.level = …` as nested tables; options are flat."""
    found: list[tuple[str, Any]] = []
    for name, value in section.items():
        found += _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sink(path: Path, name: str, body: Any, brokers: Brokers) -> Sink:
    if not isinstance(body, dict):
        raise PipelineError(f"{path}: a sink is a table of its own, such as [sinks.topic]")
    own = {key: body[key] for key in SINK_KEYS if key in body and key != "format"}
    kind, options = _options({key: value for key, value in body.items() if key not in own}, brokers)
    if kind not in FORMATS:
        raise PipelineError(f"{path}: sink '{name}' has format '{kind}'; there are {', '.join(FORMATS)}")
    if kind != "headrace" and "path" not in own:
        raise PipelineError(f"{path}: sink '{name}' lacks 'path'")
    if kind != "headrace":
        _check_keys(path, f"[sinks.{name}]", options, SINK_KEYS)
    return Sink(
        name=name,
        format=kind,
        options=options,
        path=own.get("path"),
        key=own.get("key"),
        encode=own.get("encode"),
        partition_by=tuple(own.get("partition_by", ())),
        merge_after=int(own.get("merge_after", 0)),
        output_mode=str(own.get("output_mode", "append")),
    )


def _trigger(path: Path, section: Mapping[str, Any]) -> Trigger:
    _check_keys(path, "[trigger]", section, TRIGGER_KEYS)
    if len(section) > 1:
        raise PipelineError(f"{path}: [trigger] has {' and '.join(section)}, but takes one of {', '.join(TRIGGER_KEYS)}")
    return Trigger(**section) if section else Trigger(every="4 minutes")


def _watermark(path: Path, section: Mapping[str, Any] | None) -> Watermark | None:
    if section is None:
        return None
    _check_keys(path, "[watermark]", section, WATERMARK_KEYS)
    if set(section) != set(WATERMARK_KEYS):
        raise PipelineError(f"{path}: [watermark] takes both column and delay")
    return Watermark(**section)


def _schema(path: Path, section: Mapping[str, Any] | None) -> Schema | None:
    if section is None:
        return None
    _check_keys(path, "[schema]", section, SCHEMA_KEYS)
    if section.get("format", "json") != "json":
        raise PipelineError(f"{path}: [schema] has format '{section['format']}'; values are read as json")
    if "fields" not in section:
        raise PipelineError(f"{path}: [schema] lacks 'fields', such as \"customer STRING, amount DOUBLE, time TIMESTAMP\"")
    return Schema(
        fields=str(section["fields"]),
        required=tuple(section.get("required", ())),
        time=section.get("time"),
        future_max=section.get("future_max"),
    )


def _check_keys(path: Path, where: str, found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in found:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f"did you mean '{close[0]}'?" if close else f"it takes {', '.join(known)}"
            raise PipelineError(f"{path}: {where} has '{key}', which is unknown; {hint}")
