"""Settings that one group may have of its own (KIP-848), with the broker's settings that give their defaults and limits.

Names are Kafka's.  Those of streams groups join the table with the groups themselves.
"""

import re
from collections.abc import Mapping

from headrace.model.broker_settings import BROKER_SETTINGS, BrokerConfig
from headrace.model.groups.coordinator_settings import OF_SHARE_GROUPS
from headrace.model.names import why_not_a_topic_name
from headrace.model.settings import Kind, Setting, SettingError, SettingTable

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"


SHARE_SESSION_TIMEOUT = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL = "share.heartbeat.interval.ms"
SHARE_LOCK_DURATION = "share.record.lock.duration.ms"
SHARE_DELIVERY_COUNT_LIMIT = "share.delivery.count.limit"
SHARE_RECORD_LOCKS = "share.partition.max.record.locks"
SHARE_AUTO_OFFSET_RESET = "share.auto.offset.reset"
SHARE_ISOLATION_LEVEL = "share.isolation.level"
SHARE_RENEWAL = "share.renew.acknowledge.enable"
SHARE_BACKOFF = "headrace.share.backoff.ms"
SHARE_PAUSED = "headrace.share.paused"
SHARE_BREAKER_PERCENT = "headrace.share.breaker.percent"
SHARE_BREAKER_RECORDS = "headrace.share.breaker.records"
SHARE_BREAKER_PAUSE = "headrace.share.breaker.pause.ms"
SHARE_BREAKER_RESUMED = "headrace.share.breaker.resumed.ms"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
DEAD_LETTER_COPIES = "errors.deadletterqueue.copy.record.enable"
DEAD_LETTER_PREFIX = "errors.deadletterqueue.topic.name.prefix"


def _own(name: str) -> Setting:
    """A group's own form of `group.<name>`."""
    broker = BROKER_SETTINGS[f"group.{name}"]
    return Setting(
        name=name,
        kind=broker.kind,
        default=broker.default,
        doc=broker.doc,
        minimum=broker.minimum,
        synonyms=(broker.name,),
        dynamic=True,
    )


SHARE_GROUP_SETTINGS = SettingTable(
    (
        *(_own(f"share.{kind}") for kind in OF_SHARE_GROUPS),
        Setting(
            name=SHARE_AUTO_OFFSET_RESET,
            kind=Kind.STRING,
            default="latest",
            doc="Where a share group begins: earliest, latest, or by_duration:<ISO 8601> before now.",
            dynamic=True,
        ),
        Setting(
            name=SHARE_ISOLATION_LEVEL,
            kind=Kind.STRING,
            default="read_uncommitted",
            doc="Whether a share group gets records of transactions that are not, or never were, committed.",
            choices=("read_committed", "read_uncommitted"),
            dynamic=True,
        ),
        Setting(
            name=SHARE_RENEWAL,
            kind=Kind.BOOLEAN,
            default=True,
            doc="Whether members of a share group may renew the locks of records that they work on.",
            dynamic=True,
        ),
        Setting(
            name=DEAD_LETTER_TOPIC,
            kind=Kind.STRING,
            default="",
            doc="The topic to which records go that a share group gives up: rejected, or after their last delivery (KIP-1191).",
            dynamic=True,
        ),
        Setting(
            name=DEAD_LETTER_COPIES,
            kind=Kind.BOOLEAN,
            default=False,
            doc="Whether a dead letter has the record's key, value and headers, and not just headers that tell of it.",
            dynamic=True,
        ),
        Setting(
            name=SHARE_BACKOFF,
            kind=Kind.INT,
            default=0,
            doc="How long a record rests that was released, or whose lock ran out, before it is delivered again; twice as long "
            "after each further delivery, an hour at most, give or take a quarter.",
            minimum=0,
            dynamic=True,
        ),
        Setting(
            name=SHARE_PAUSED,
            kind=Kind.BOOLEAN,
            default=False,
            doc="Whether a share group gets no records for now; what its members have they may finish (`headrace queue pause`).",
            dynamic=True,
        ),
        Setting(
            name=SHARE_BREAKER_PERCENT,
            kind=Kind.INT,
            default=0,
            doc="Delivery to a share group pauses when more than so many percent of the last records that were done were given "
            "up: rejected, or after their last delivery.  0 is never.",
            minimum=0,
            maximum=100,
            dynamic=True,
        ),
        Setting(
            name=SHARE_BREAKER_RECORDS,
            kind=Kind.INT,
            default=100,
            doc="How many records the breaker of a share group looks at; after a pause, a tenth as many at first.",
            minimum=1,
            maximum=100_000,
            dynamic=True,
        ),
        Setting(
            name=SHARE_BREAKER_PAUSE,
            kind=Kind.INT,
            default=60_000,
            doc="How long the breaker of a share group pauses delivery.",
            minimum=1,
            dynamic=True,
        ),
        Setting(
            name=SHARE_BREAKER_RESUMED,
            kind=Kind.LONG,
            default=0,
            doc="Pauses of the breaker that began before this time (milliseconds since 1970) are over; `headrace queue resume` "
            "sets it.",
            minimum=0,
            dynamic=True,
        ),
    )
)
GROUP_SETTINGS = SettingTable(
    (
        *(_own(name) for name in (ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT)),
        *SHARE_GROUP_SETTINGS,
    )
)
OFFSET_RESET = re.compile(r"earliest|latest|by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.IGNORECASE)

# Where a value must lie: the broker's settings with the least and the largest one.
_LIMITS = {
    f"{family}.{kind}": (f"group.{family}.min.{kind}", f"group.{family}.max.{kind}")
    for family, kinds in (
        ("consumer", ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")),
        ("share", OF_SHARE_GROUPS),
    )
    for kind in kinds
}


def check_group_settings(texts: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise SettingError where a setting is unknown, wrong, or beyond what the broker allows to any group."""
    values = GROUP_SETTINGS.parse(texts)
    reset = values.get(SHARE_AUTO_OFFSET_RESET)
    if isinstance(reset, str) and OFFSET_RESET.fullmatch(reset) is None:
        raise SettingError(f"{SHARE_AUTO_OFFSET_RESET}={reset} is not earliest, latest, or by_duration: and a duration")
    _check_dead_letters(str(values.get(DEAD_LETTER_TOPIC) or ""), broker[DEAD_LETTER_PREFIX])
    for name, value in values.items():
        if name not in _LIMITS:
            continue
        least, largest = _LIMITS[name]
        assert isinstance(value, int)
        if value < broker[least]:
            raise SettingError(f"{name} must be greater than or equal to {least}, which is {broker[least]}")
        if value > broker[largest]:
            raise SettingError(f"{name} must be less than or equal to {largest}, which is {broker[largest]}")
    for session_name, heartbeat_name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL), (SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL):
        session, heartbeat = (values.get(name, broker[f"group.{name}"]) for name in (session_name, heartbeat_name))
        if session <= heartbeat:
            raise SettingError(f"{session_name}={session} must be greater than {heartbeat_name}, which is {heartbeat}")


def _check_dead_letters(topic: str, prefix: str) -> None:
    """Nobody shall write to any topic by having a group give up records: those for that are named for it, and allow it."""
    if not topic:
        return
    if (wrong := why_not_a_topic_name(topic)) is not None:
        raise SettingError(f"{DEAD_LETTER_TOPIC}: {wrong.rstrip('.')}")
    if topic.startswith("__") or not topic.startswith(prefix):
        raise SettingError(
            f"{DEAD_LETTER_TOPIC}={topic} must begin with {prefix or 'something else than __'} ({DEAD_LETTER_PREFIX})"
        )
