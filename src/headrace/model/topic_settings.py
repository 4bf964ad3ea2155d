"""The settings of a topic, with Kafka's names and defaults, and the parsed form that the log works with."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

from headrace.declaring import dataclass
from headrace.model.settings import INT_MAX, LONG_MAX, Kind, Setting, SettingError, SettingTable, Value
from headrace.model.tier.lost_topic import LostTopic

_CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")


def _topic(name: str, kind: Kind, default: Value, doc: str, **limits: Any) -> Setting:
    return Setting(name=name, kind=kind, default=default, doc=doc, dynamic=True, **limits)


TOPIC_SETTINGS = SettingTable(
    (
        _topic(
            "cleanup.policy",
            Kind.LIST,
            ("delete",),
            "What happens to old records: deleted by age and size, compacted to the last value per key, or both.",
            choices=("delete", "compact"),
            synonyms=("log.cleanup.policy",),
        ),
        _topic(
            "compression.type",
            Kind.STRING,
            "producer",
            "The codec batches are stored in; `producer` keeps what the producer sent.",
            choices=_CODECS,
            synonyms=("compression.type",),
        ),
        _topic(
            "compression.gzip.level",
            Kind.INT,
            -1,
            "Batches that are compressed anew are compressed at the codec's own default level.",
            choices=("-1", *map(str, range(1, 10))),
            compatibility=True,
            synonyms=("compression.gzip.level",),
        ),
        _topic(
            "compression.lz4.level",
            Kind.INT,
            9,
            "Batches that are compressed anew are compressed at the codec's own default level.",
            minimum=1,
            maximum=17,
            compatibility=True,
            synonyms=("compression.lz4.level",),
        ),
        _topic(
            "compression.zstd.level",
            Kind.INT,
            3,
            "Batches that are compressed anew are compressed at the codec's own default level.",
            minimum=-131_072,
            maximum=22,
            compatibility=True,
            synonyms=("compression.zstd.level",),
        ),
        _topic(
            "delete.retention.ms",
            Kind.LONG,
            86_400_000,
            "How long a tombstone stays readable in a compacted topic.",
            minimum=0,
            synonyms=("log.cleaner.delete.retention.ms",),
        ),
        _topic(
            "file.delete.delay.ms",
            Kind.LONG,
            60_000,
            "How long the files of a removed segment or a deleted topic are kept on disk under other names. They are removed"
            " earlier when the disk is full or the broker restarts.",
            minimum=0,
            synonyms=("log.segment.delete.delay.ms",),
        ),
        _topic(
            "flush.messages",
            Kind.LONG,
            1_000,
            "With flush mode `interval`: flush after this many messages.",
            minimum=1,
            synonyms=("log.flush.interval.messages",),
        ),
        _topic(
            "flush.ms",
            Kind.LONG,
            1_000,
            "With flush mode `interval`: flush at the latest after this many milliseconds.",
            minimum=0,
            synonyms=("log.flush.interval.ms",),
        ),
        _topic(
            "follower.replication.throttled.replicas",
            Kind.LIST,
            (),
            "Replicas (`partition:broker`, or `*`) whose fetching is throttled during a reassignment.",
        ),
        _topic(
            "errors.deadletterqueue.group.enable",
            Kind.BOOLEAN,
            False,
            "Whether share groups may have their dead letters written here (KIP-1191).",
        ),
        _topic(
            "headrace.delay.enable",
            Kind.BOOLEAN,
            False,
            "Whether records may be delayed: one with the header `headrace-deliver-at` (milliseconds since 1970) or "
            "`headrace-delay-ms` is delivered when its time has come.",
            synonyms=("headrace.delay.enable",),
        ),
        _topic(
            "headrace.flush",
            Kind.STRING,
            "ack",
            "When records reach the disk: before they are acknowledged, at intervals, or when the operating system writes them.",
            choices=("ack", "interval", "os"),
            synonyms=("headrace.flush",),
        ),
        _topic(
            "headrace.key.schema.validation",
            Kind.BOOLEAN,
            False,
            "Whether every key must begin with the id of a registered schema, as serializers put it there. Records without a key "
            "pass.",
        ),
        _topic(
            "headrace.ttl.enable",
            Kind.BOOLEAN,
            False,
            "Whether records may carry a time to live in the header `headrace-ttl-ms`. Once it is over they are removed "
            "within seconds; on disk after minutes where much has to be rewritten (full segments, large compacted topics).",
            synonyms=("headrace.ttl.enable",),
        ),
        _topic(
            "headrace.remote.from",
            Kind.STRING,
            "",
            "CLUSTER/TOPIC:EPOCH, the folder in the object store whose records this topic begins with, those of a topic that was"
            " lost, and the first epoch of its own. `headrace recover` sets it; it holds from the creation on.",
        ),
        _topic(
            "headrace.value.schema.validation",
            Kind.BOOLEAN,
            False,
            "Whether every value must begin with the id of a registered schema, as serializers put it there. Tombstones pass.",
        ),
        _topic(
            "index.interval.bytes",
            Kind.INT,
            4_096,
            "How many bytes of log lie between two entries of the offset index.",
            minimum=0,
            synonyms=("log.index.interval.bytes",),
        ),
        _topic(
            "leader.replication.throttled.replicas",
            Kind.LIST,
            (),
            "Replicas (`partition:broker`, or `*`) whose serving is throttled during a reassignment.",
        ),
        _topic(
            "local.retention.bytes",
            Kind.LONG,
            -2,
            "The most bytes of a tiered partition that stay on disk once they are in the object store; -1 for no limit, -2 for as"
            " many as `retention.bytes`.",
            minimum=-2,
            synonyms=("log.local.retention.bytes",),
        ),
        _topic(
            "local.retention.ms",
            Kind.LONG,
            -2,
            "How long records of a tiered topic stay on disk once they are in the object store; -1 for no limit, -2 for as long"
            " as `retention.ms`.",
            minimum=-2,
            synonyms=("log.local.retention.ms",),
        ),
        _topic(
            "max.compaction.lag.ms",
            Kind.LONG,
            LONG_MAX,
            "The longest time a record may remain uncompacted.",
            minimum=1,
            synonyms=("log.cleaner.max.compaction.lag.ms",),
        ),
        _topic(
            "max.message.bytes",
            Kind.INT,
            1_048_588,
            "The largest batch that is accepted, as stored.",
            minimum=0,
            maximum=INT_MAX,
            synonyms=("message.max.bytes",),
        ),
        _topic(
            "memory.full.policy",
            Kind.STRING,
            "reject",
            "In memory: whether a full partition refuses new records or drops its oldest.",
            choices=("reject", "drop-oldest"),
            synonyms=("memory.full.policy",),
        ),
        _topic(
            "memory.max.bytes",
            Kind.LONG,
            268_435_456,
            "In memory: the most bytes one partition holds.",
            minimum=1,
            synonyms=("memory.max.bytes",),
        ),
        _topic(
            "memory.max.messages",
            Kind.LONG,
            10_000_000,
            "In memory: the most messages one partition holds.",
            minimum=1,
            synonyms=("memory.max.messages",),
        ),
        _topic(
            "message.timestamp.after.max.ms",
            Kind.LONG,
            3_600_000,
            "How far in the future a record's timestamp may lie.",
            minimum=0,
            synonyms=("log.message.timestamp.after.max.ms",),
        ),
        _topic(
            "message.timestamp.before.max.ms",
            Kind.LONG,
            LONG_MAX,
            "How far in the past a record's timestamp may lie.",
            minimum=0,
            synonyms=("log.message.timestamp.before.max.ms",),
        ),
        _topic(
            "message.timestamp.type",
            Kind.STRING,
            "CreateTime",
            "Whether records keep the producer's timestamp or get the broker's.",
            choices=("CreateTime", "LogAppendTime"),
            synonyms=("log.message.timestamp.type",),
        ),
        _topic(
            "min.cleanable.dirty.ratio",
            Kind.DOUBLE,
            0.5,
            "How much of a compacted log must be uncompacted before compaction starts.",
            minimum=0,
            maximum=1,
            synonyms=("log.cleaner.min.cleanable.ratio",),
        ),
        _topic(
            "min.compaction.lag.ms",
            Kind.LONG,
            0,
            "The shortest time a record remains uncompacted.",
            minimum=0,
            synonyms=("log.cleaner.min.compaction.lag.ms",),
        ),
        _topic(
            "min.insync.replicas",
            Kind.INT,
            1,
            "How many replicas must be in sync for a write with acks=all.",
            minimum=1,
            synonyms=("min.insync.replicas",),
        ),
        _topic(
            "preallocate",
            Kind.BOOLEAN,
            False,
            "Segments grow as they are written.",
            compatibility=True,
            synonyms=("log.preallocate",),
        ),
        _topic(
            "remote.log.copy.disable",
            Kind.BOOLEAN,
            False,
            "Segments are copied for as long as `remote.storage.enable` is on.",
            compatibility=True,
        ),
        _topic(
            "remote.log.delete.on.disable",
            Kind.BOOLEAN,
            False,
            "Tiered storage is not turned off again for a topic.",
            compatibility=True,
        ),
        _topic(
            "remote.storage.enable",
            Kind.BOOLEAN,
            False,
            "Whether closed segments go to the object store of `headrace.remote.url`, and old ones are read from there. Once on,"
            " it stays on.",
        ),
        _topic(
            "retention.bytes",
            Kind.LONG,
            -1,
            "The most bytes a partition keeps; -1 for no limit.",
            minimum=-1,
            synonyms=("log.retention.bytes",),
        ),
        _topic(
            "retention.ms",
            Kind.LONG,
            604_800_000,
            "How long records are kept; -1 for ever.",
            minimum=-1,
            synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ),
        _topic(
            "segment.bytes",
            Kind.INT,
            1_073_741_824,
            "The size at which a segment file is closed and a new one started.",
            minimum=1_048_576,
            synonyms=("log.segment.bytes",),
        ),
        _topic(
            "internal.segment.bytes",
            Kind.INT,
            None,
            "For tests: `segment.bytes` without its minimum; takes precedence over it.",
            minimum=14,
            synonyms=("internal.log.segment.bytes",),
            internal=True,
        ),
        _topic(
            "segment.index.bytes",
            Kind.INT,
            10_485_760,
            "The size of an index file at which a new segment is started.",
            minimum=4,
            synonyms=("log.index.size.max.bytes",),
        ),
        _topic(
            "segment.jitter.ms",
            Kind.LONG,
            0,
            "The largest random amount by which the time to the next segment is shortened.",
            minimum=0,
            synonyms=("log.roll.jitter.ms",),
        ),
        _topic(
            "segment.ms",
            Kind.LONG,
            604_800_000,
            "The age at which a segment is closed and a new one started.",
            minimum=1,
            synonyms=("log.roll.ms", "log.roll.hours"),
        ),
        _topic(
            "unclean.leader.election.enable",
            Kind.BOOLEAN,
            False,
            "Whether a replica outside the in-sync set may become leader, which can lose records.",
            synonyms=("unclean.leader.election.enable",),
        ),
    )
)

_FIELDS = {
    "headrace.delay.enable": "delay_enable",
    "headrace.flush": "flush",
    "headrace.key.schema.validation": "key_schema_validation",
    "headrace.value.schema.validation": "value_schema_validation",
    "headrace.remote.from": "remote_from",
    "headrace.ttl.enable": "message_ttl_enable",
    "internal.segment.bytes": "segment_bytes",
}


# Without slots, for the properties that are worked out once: every batch asks for them.
@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """The settings one partition works with, parsed."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    delay_enable: bool = False
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = 1000
    flush_ms: int = 1000
    flush: str = "ack"
    message_ttl_enable: bool = False
    key_schema_validation: bool = False
    value_schema_validation: bool = False
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    memory_full_policy: str = "reject"
    memory_max_bytes: int = 268_435_456
    memory_max_messages: int = 10_000_000
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    producer_id_expiration_ms: int = 86_400_000
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    remote_from: str = ""
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @cached_property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @cached_property
    def roll_after_ms(self) -> int:
        """The age at which a segment is closed at the latest."""
        # Only closed segments are compacted: one that must be compacted by then must be closed by then.
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @cached_property
    def roll_jitter_ms(self) -> int:
        """By how much earlier it may be closed, so that logs that were begun together are not all closed together."""
        return min(self.segment_jitter_ms, self.roll_after_ms)

    @cached_property
    def needs_deep_validation(self) -> bool:
        """Whether a topic asks for its records to be looked at one by one."""
        limits_age = self.message_timestamp_before_max_ms != LONG_MAX and self.message_timestamp_type == "CreateTime"
        return self.is_compacted or self.compression_type != "producer" or limits_age or self.needs_schemas

    @cached_property
    def needs_schemas(self) -> bool:
        """Whether records must have the ids of registered schemas."""
        return self.key_schema_validation or self.value_schema_validation

    @cached_property
    def is_opened_on_arrival(self) -> bool:
        """Whether batches are looked into before they enter the log, for whatever reason."""
        return self.needs_deep_validation or self.delay_enable

    def checked(self, texts: Mapping[str, str]) -> "LogConfig":
        """As below, where somebody asks for it; SettingError names the first that is not accepted."""
        _check_lags(self, TOPIC_SETTINGS.parse(texts))
        after = self.overridden(texts)
        _check_tiered(after)
        LostTopic.parse(after.remote_from)
        return after

    def overridden(self, texts: Mapping[str, str]) -> "LogConfig":
        """These settings with a topic's own on top, which were checked when they were set."""
        changes: dict[str, Any] = {}
        for name in sorted(texts, key=lambda name: TOPIC_SETTINGS[name].internal):
            value = TOPIC_SETTINGS[name].read(texts[name])
            field = _FIELDS.get(name, name.replace(".", "_"))
            if field in _KNOWN_FIELDS:
                changes[field] = frozenset(value) if isinstance(value, tuple) else value
        return replace(self, **changes)


_KNOWN_FIELDS = frozenset(field.name for field in fields(LogConfig))


def _check_lags(before: LogConfig, values: Mapping[str, Any]) -> None:
    least = values.get("min.compaction.lag.ms", before.min_compaction_lag_ms)
    most = values.get("max.compaction.lag.ms", before.max_compaction_lag_ms)
    if least > most:
        raise SettingError(f"min.compaction.lag.ms={least} is above max.compaction.lag.ms={most}")


def _check_tiered(config: LogConfig) -> None:
    if config.remote_storage_enable and config.is_compacted:
        raise SettingError("remote.storage.enable=true needs cleanup.policy=delete: what is in an object store is not compacted")
    if config.remote_storage_enable and config.message_ttl_enable:
        raise SettingError(
            "remote.storage.enable=true does not go with headrace.ttl.enable=true: records would outlive their time in the store"
        )
