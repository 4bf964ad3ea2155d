"""Broker settings that Kafka changes at run time and that change nothing here.

Tools and files set them; they are taken, kept, shown, and marked as of no effect.
"""

from headrace.model.settings import INT_MAX, LONG_MAX, Kind, Setting, Value


def _taken(name: str, kind: Kind, default: Value, doc: str, minimum: float | None = None) -> Setting:
    return Setting(name=name, kind=kind, default=default, doc=doc, minimum=minimum, dynamic=True, compatibility=True)


TIERED_OTHERWISE = "Tiered storage has its own settings, `headrace.remote.*`."
COMPATIBILITY_SETTINGS = (
    _taken("num.network.threads", Kind.INT, 3, "One event loop serves all connections.", 1),
    _taken("num.io.threads", Kind.INT, 8, "There are as many threads for the disk as flushes and reads need.", 1),
    _taken("background.threads", Kind.INT, 10, "Background work shares the threads for the disk.", 1),
    _taken("num.recovery.threads.per.data.dir", Kind.INT, 2, "Recovery uses the threads for the disk.", 1),
    _taken("num.replica.fetchers", Kind.INT, 1, "One fetcher for each source broker fetches all of its partitions.", 1),
    _taken("log.cleaner.threads", Kind.INT, 1, "One process compacts.", 0),
    _taken("log.cleaner.dedupe.buffer.size", Kind.LONG, 134_217_728, "Compaction takes the memory its keys need.", 1_048_576),
    _taken("log.cleaner.io.buffer.size", Kind.INT, 524_288, "Compaction reads batch by batch.", 0),
    _taken("log.cleaner.io.buffer.load.factor", Kind.DOUBLE, 0.9, "Compaction has no such buffer."),
    _taken("log.cleaner.io.max.bytes.per.second", Kind.DOUBLE, 1.7976931348623157e308, "Compaction is not throttled."),
    _taken(
        "log.flush.start.offset.checkpoint.interval.ms",
        Kind.INT,
        60_000,
        "A log's start is on disk before DeleteRecords is answered, and written with the recovery points otherwise.",
        1,
    ),
    _taken("metric.reporters", Kind.LIST, (), "There are no plug-ins."),
    _taken(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        Kind.LONG,
        LONG_MAX,
        "A broker has one log directory. Kafka's reassignment tool clears it after every move.",
        0,
    ),
    _taken("config.providers", Kind.LIST, (), "There are no plug-ins."),
    _taken("cordoned.log.dirs", Kind.LIST, (), "A broker has one log directory."),
    _taken("group.coordinator.cached.buffer.max.bytes", Kind.INT, 1_048_588, "Coordinators keep no buffers.", 524_288),
    _taken("share.coordinator.cached.buffer.max.bytes", Kind.INT, 1_048_588, "State is written as it comes.", 524_288),
    _taken("group.share.assignment.interval.ms", Kind.INT, 1000, "A share group is reassigned immediately.", 0),
    _taken("group.streams.assignment.interval.ms", Kind.INT, 1000, "There are no streams groups.", 0),
    _taken("max.connection.creation.rate", Kind.INT, INT_MAX, "Set the quota `connection_creation_rate` instead.", 0),
    _taken("max.connections.per.ip", Kind.INT, INT_MAX, "Connections are limited by `max.connections` and by quotas.", 0),
    _taken("max.connections.per.ip.overrides", Kind.STRING, "", "Connections are limited by `max.connections` and by quotas."),
    _taken("follower.fetch.last.tiered.offset.enable", Kind.BOOLEAN, False, "New followers always begin behind what is tiered."),
    _taken("remote.list.offsets.request.timeout.ms", Kind.LONG, 30_000, TIERED_OTHERWISE, 1),
    _taken("remote.log.index.file.cache.total.size.bytes", Kind.LONG, 1_073_741_824, TIERED_OTHERWISE, 1),
    _taken("remote.log.manager.copier.thread.pool.size", Kind.INT, 10, TIERED_OTHERWISE, 1),
    _taken("remote.log.manager.copy.max.bytes.per.second", Kind.LONG, LONG_MAX, TIERED_OTHERWISE, 1),
    _taken("remote.log.manager.expiration.thread.pool.size", Kind.INT, 10, TIERED_OTHERWISE, 1),
    _taken("remote.log.manager.fetch.max.bytes.per.second", Kind.LONG, LONG_MAX, TIERED_OTHERWISE, 1),
    _taken("remote.log.manager.follower.thread.pool.size", Kind.INT, 2, TIERED_OTHERWISE, 1),
    _taken("remote.log.reader.threads", Kind.INT, 10, TIERED_OTHERWISE, 1),
)
