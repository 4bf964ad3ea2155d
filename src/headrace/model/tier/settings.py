"""The settings of a broker that are about tiered storage."""

from headrace.model.settings import LONG_MAX, Kind, Setting

TIER_SETTINGS = (
    Setting(
        name="headrace.remote.url",
        kind=Kind.STRING,
        default=None,
        doc="The object store for topics with `remote.storage.enable`: s3://bucket/prefix, gs://, az:// or file:///folder. The"
        " same on all brokers. Credentials are taken from where the cloud's own tools take them.",
    ),
    Setting(
        name="headrace.remote.timeout.ms",
        kind=Kind.INT,
        default=30_000,
        doc="How long the object store has for an answer, and for each 32 MiB of an upload.",
        minimum=100,
    ),
    Setting(
        name="headrace.remote.upload.bytes.per.second",
        kind=Kind.LONG,
        default=LONG_MAX,
        doc="How fast this broker uploads at most, all its partitions together.",
        minimum=1024,
        dynamic=True,
    ),
    Setting(
        name="headrace.remote.cache.bytes",
        kind=Kind.LONG,
        default=1_073_741_824,
        doc="How much of the data directory's disk is used for what was read from the object store.",
        minimum=4 * 1_048_576,
        dynamic=True,
    ),
    Setting(
        name="headrace.remote.sweep.interval.ms",
        kind=Kind.LONG,
        default=3_600_000,
        doc="How often the object store is looked through for what nobody needs any more.",
        minimum=1,
        dynamic=True,
    ),
    Setting(
        name="headrace.remote.sweep.grace.ms",
        kind=Kind.LONG,
        default=86_400_000,
        doc="How long the objects of a deleted topic, and of uploads that were cut short, stay in the object store.",
        minimum=0,
        dynamic=True,
    ),
    Setting(
        name="remote.log.manager.task.interval.ms",
        kind=Kind.LONG,
        default=30_000,
        doc="How often it is looked for segments to upload, and for those that need not stay.",
        minimum=1,
        dynamic=True,
    ),
    Setting(
        name="remote.fetch.max.wait.ms",
        kind=Kind.INT,
        default=500,
        doc="How long a fetch waits for the object store before it is answered without those records.",
        minimum=1,
        dynamic=True,
    ),
)
