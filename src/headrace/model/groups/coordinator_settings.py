"""A broker's settings of the groups that it coordinates: how they form, what is kept of them, what they may set themselves."""

from headrace.model.settings import INT_MAX, Kind, Setting, fixed

# What share groups may set for themselves, within limits.
OF_SHARE_GROUPS = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "record.lock.duration.ms",
    "delivery.count.limit",
    "partition.max.record.locks",
)

GROUP_SETTINGS = (
    fixed("offsets.topic.num.partitions", Kind.INT, 50, "Partitions of __consumer_offsets.", minimum=1),
    fixed(
        "offsets.topic.replication.factor",
        Kind.SHORT,
        3,
        "Replicas of __consumer_offsets, as far as there are brokers.",
        minimum=1,
    ),
    fixed("offsets.topic.segment.bytes", Kind.INT, 104_857_600, "Segment size of __consumer_offsets.", minimum=1),
    fixed("offsets.retention.minutes", Kind.INT, 10_080, "How long an empty group's offsets are kept.", minimum=1),
    fixed("offsets.retention.check.interval.ms", Kind.LONG, 600_000, "How often expired offsets are removed.", minimum=1),
    fixed(
        "offsets.commit.timeout.ms",
        Kind.INT,
        5000,
        "How long a group coordinator waits for the replicas to confirm what it wrote, before it answers "
        "COORDINATOR_NOT_AVAILABLE.",
        minimum=1,
    ),
    fixed(
        "offset.metadata.max.bytes", Kind.INT, 4096, "The maximum size of the metadata stored with a committed offset.", minimum=0
    ),
    fixed("group.min.session.timeout.ms", Kind.INT, 6000, "The shortest session time-out a member may ask for.", minimum=1),
    fixed("group.max.session.timeout.ms", Kind.INT, 1_800_000, "The longest session time-out a member may ask for.", minimum=1),
    fixed(
        "group.initial.rebalance.delay.ms", Kind.INT, 500, "How long a new group waits for more members; Kafka: 3000.", minimum=0
    ),
    fixed("group.max.size", Kind.INT, INT_MAX, "The maximum number of members of a group.", minimum=1),
    fixed("group.consumer.session.timeout.ms", Kind.INT, 45_000, "Session time-out of the consumer protocol.", minimum=1),
    fixed("group.consumer.heartbeat.interval.ms", Kind.INT, 5000, "Heartbeat interval of the consumer protocol.", minimum=1),
    fixed(
        "group.consumer.min.session.timeout.ms",
        Kind.INT,
        45_000,
        "The shortest session time-out that a group may set for itself.",
        minimum=1,
    ),
    fixed(
        "group.consumer.max.session.timeout.ms",
        Kind.INT,
        60_000,
        "The longest session time-out that a group may set for itself.",
        minimum=1,
    ),
    fixed(
        "group.consumer.min.heartbeat.interval.ms",
        Kind.INT,
        5000,
        "The shortest heartbeat interval that a group may set for itself.",
        minimum=1,
    ),
    fixed(
        "group.consumer.max.heartbeat.interval.ms",
        Kind.INT,
        15_000,
        "The longest heartbeat interval that a group may set for itself.",
        minimum=1,
    ),
    fixed(
        "group.consumer.min.assignment.interval.ms",
        Kind.INT,
        0,
        "The shortest assignment interval that a group may set for itself.",
        minimum=0,
    ),
    fixed(
        "group.consumer.max.assignment.interval.ms",
        Kind.INT,
        15_000,
        "The longest assignment interval that a group may set for itself.",
        minimum=0,
    ),
    fixed(
        "group.consumer.max.size",
        Kind.INT,
        INT_MAX,
        "The maximum number of members of a group in the consumer protocol.",
        minimum=1,
    ),
    fixed(
        "group.consumer.assignors",
        Kind.LIST,
        ("uniform", "range"),
        "Server-side assignors; the first is the default.",
        choices=("uniform", "range"),
    ),
    fixed(
        "group.consumer.assignment.interval.ms",
        Kind.INT,
        0,
        "The least time between two target assignments of a group in the consumer protocol. Kafka: 1000; 0 rebalances at once.",
        minimum=0,
        maximum=15_000,
    ),
    fixed(
        "group.consumer.migration.policy",
        Kind.STRING,
        "bidirectional",
        "Which way a group may move between the classic and the consumer protocol.",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
    ),
    fixed(
        "group.consumer.regex.refresh.interval.ms",
        Kind.INT,
        600_000,
        "How often subscriptions by pattern are resolved again when no topic was created meanwhile.",
        minimum=10,
    ),
)


def _of_share_groups(kind: str, default: int, least: int, most: int, doc: str) -> tuple[Setting, ...]:
    """What share groups get that set nothing, and between which values a group may set it for itself (KIP-1240)."""
    return (
        fixed(f"group.share.{kind}", Kind.INT, default, doc, minimum=1),
        fixed(f"group.share.min.{kind}", Kind.INT, least, f"The least share.{kind} that a group may set for itself.", minimum=1),
        fixed(f"group.share.max.{kind}", Kind.INT, most, f"The largest share.{kind} that a group may set for itself.", minimum=1),
    )


SHARE_GROUP_SETTINGS = (
    *_of_share_groups("session.timeout.ms", 45_000, 45_000, 60_000, "The session time-out of members of a share group."),
    *_of_share_groups("heartbeat.interval.ms", 5_000, 5_000, 15_000, "The heartbeat interval of members of a share group."),
    *_of_share_groups(
        "record.lock.duration.ms",
        30_000,
        15_000,
        60_000,
        "How long a record stays locked for the share consumer that acquired it.",
    ),
    *_of_share_groups("delivery.count.limit", 5, 2, 10, "The maximum number of deliveries of a record to a share group."),
    *_of_share_groups(
        "partition.max.record.locks",
        2_000,
        100,
        10_000,
        "The maximum number of records of one partition that a share group has in flight.",
    ),
    fixed(
        "errors.deadletterqueue.topic.name.prefix",
        Kind.STRING,
        "dlq.",
        "The prefix that the name of a dead-letter topic of share groups must have (KIP-1191).",
    ),
    fixed("group.share.max.size", Kind.INT, 200, "The maximum number of members of a share group.", minimum=1),
    fixed("group.share.max.share.sessions", Kind.INT, 2_000, "The maximum number of share sessions of a broker.", minimum=1),
    fixed("share.coordinator.state.topic.num.partitions", Kind.INT, 50, "Partitions of __share_group_state.", minimum=1),
    fixed(
        "share.coordinator.state.topic.replication.factor",
        Kind.SHORT,
        3,
        "Replicas of __share_group_state, as far as there are brokers.",
        minimum=1,
    ),
    fixed(
        "share.coordinator.state.topic.min.isr",
        Kind.SHORT,
        2,
        "In-sync replicas of __share_group_state that a write needs, as far as there are brokers.",
        minimum=1,
    ),
    fixed(
        "share.coordinator.state.topic.segment.bytes", Kind.INT, 104_857_600, "Segment size of __share_group_state.", minimum=1
    ),
    fixed(
        "share.coordinator.snapshot.update.records.per.snapshot",
        Kind.INT,
        500,
        "The number of updates of a share-partition after which a snapshot of its state is written.",
        minimum=0,
    ),
    fixed(
        "share.coordinator.write.timeout.ms",
        Kind.INT,
        5_000,
        "How long a share coordinator waits for the replicas to confirm what it wrote.",
        minimum=1,
    ),
)
