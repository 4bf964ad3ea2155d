"""Which names topics may have, and which of them are the broker's own; and a group's that is none."""

import re

TOPIC_NAME_MAX = 249
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
AUDIT = "__audit"
SHARE_GROUP_STATE = "__share_group_state"
DELAYED = "__headrace_delayed"
SCHEDULES = "__headrace_schedules"
GATEWAY = "__headrace_gateway"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, AUDIT, DELAYED, SCHEDULES})
# Whatever clients are allowed: schedules are clients' to make, and brokers look at each.
WRITTEN_BY_BROKERS = INTERNAL_TOPICS - {SCHEDULES}
# What was done, records of all topics, others' subscriptions: a rule for all topics is not meant for these.
NEED_OWN_RIGHT = frozenset({AUDIT, DELAYED, GATEWAY})
# What those that coordinate hold, in a word.
HELD_IN = {
    CONSUMER_OFFSETS: "group",
    TRANSACTION_STATE: "transaction",
    SHARE_GROUP_STATE: "share group",
    DELAYED: "delayed record",
    SCHEDULES: "schedule",
}
# What our clients call the group of somebody who reads without one: librdkafka insists on a name, and asks for its coordinator.
UNGROUPED = "headrace-ungrouped"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_not_a_topic_name(name: str) -> str | None:
    """A sentence about what is wrong with a topic's name; None when nothing is."""
    if not name:
        return "A topic's name must not be empty."
    if name in (".", ".."):
        return f"A topic must not be named {name!r}."
    if len(name) > TOPIC_NAME_MAX:
        return f"A topic's name has at most {TOPIC_NAME_MAX} characters; this one has {len(name)}."
    if not _LEGAL.fullmatch(name):
        return f"Topic name {name!r} holds a character other than letters, digits, '.', '_' and '-'."
    return None


def collides_with(name: str, other: str) -> bool:
    """Names that differ only in '.' and '_' would share their metrics."""
    return name != other and name.replace(".", "_") == other.replace(".", "_")
