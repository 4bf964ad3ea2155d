"""A queue is a topic, a share group with its settings, and a topic for what will not do: made where they are missing."""

from __future__ import annotations

from typing import Any, Final

from headrace.client.admin.admin import Admin
from headrace.client.admin.group_settings import change_group_settings, group_settings
from headrace.client.admin.wire_admin import WireAdmin
from headrace.client.arguments import Duration, milliseconds, topic_name, whole_number
from headrace.client.errors import BrokerError, TopicNotFound, WrongState
from headrace.client.logs import log
from headrace.client.security.connecting import Way
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode

DEAD_LETTER_PREFIX: Final = "dlq."
DELAYS: Final = "headrace.delay.enable"
TAKES_LETTERS: Final = "errors.deadletterqueue.group.enable"
START: Final = "share.auto.offset.reset"
# Settings that nobody asked for, and that brokers other than Headrace may not have.
UNKNOWN_THERE: Final = frozenset({ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What is asked for; None leaves a setting as it is."""

    topic: str
    group: str
    dead_letters: str | None
    settings: dict[str, str]


def declaration(
    topic: str,
    group: str,
    *,
    dead_letters: str | bool,
    attempts: int | None,
    backoff: Duration | None,
    lock: Duration | None,
) -> Declaration:
    settings: dict[str, str] = {}
    if attempts is not None:
        settings["share.delivery.count.limit"] = str(whole_number("attempts", attempts, at_least=1))
    if backoff is not None:
        settings["headrace.share.backoff.ms"] = str(milliseconds("backoff", backoff))
    if lock is not None:
        settings["share.record.lock.duration.ms"] = str(milliseconds("lock", lock, at_least=0.001))
    letters = (
        f"{DEAD_LETTER_PREFIX}{topic}"
        if dead_letters is True
        else topic_name("dead_letters", dead_letters)
        if dead_letters
        else None
    )
    return Declaration(topic=topic, group=group, dead_letters=letters, settings=settings)


def ensure_topic(way: Way, topic: str) -> None:
    """With delays, where the brokers have them."""
    with Admin(way.bootstrap, librdkafka=way.properties) as admin:
        try:
            admin.topic(topic)
        except TopicNotFound:
            _create(admin, topic, {DELAYS: "true"})


def ensure_delays(way: Way, topic: str) -> None:
    """Raises WrongState where records with a delay would be delivered at once."""
    with Admin(way.bootstrap, librdkafka=way.properties) as admin:
        setting = admin.settings(topic).get(DELAYS)
        if setting is None or setting.value != "true":
            raise WrongState(
                f"topic '{topic}' has no delays, and a job with one would be delivered at once; "
                f"`headrace topic alter {topic} --config {DELAYS}=true` switches them on"
            )


def ensure_group(way: Way, declared: Declaration) -> None:
    """What is put before the first worker comes is worked off, too: a share group of Kafka begins at the end."""
    with WireAdmin(way.bootstrap, way.properties) as wire:
        known = group_settings(wire, declared.group)
        wanted: dict[str, Any] = {name: value for name, value in declared.settings.items() if known.get(name) != (value, True)}
        if wanted:
            change_group_settings(wire, declared.group, wanted)
        by_default = {}
        if START in known and not known[START][1]:
            by_default[START] = "earliest"
        if declared.dead_letters is not None and not known.get("errors.deadletterqueue.topic.name", ("", False))[0]:
            by_default |= {
                "errors.deadletterqueue.topic.name": declared.dead_letters,
                "errors.deadletterqueue.copy.record.enable": "true",
            }
        for name, value in by_default.items():
            _set_if_possible(wire, declared.group, name, value)
    if declared.dead_letters is not None:
        with Admin(way.bootstrap, librdkafka=way.properties) as admin:
            try:
                admin.topic(declared.dead_letters)
            except TopicNotFound:
                _create(admin, declared.dead_letters, {TAKES_LETTERS: "true"})


def _set_if_possible(wire: WireAdmin, group: str, name: str, value: str) -> None:
    try:
        change_group_settings(wire, group, {name: value})
    except BrokerError as error:
        if error.code in UNKNOWN_THERE:
            log.info("the brokers do not take %s for group '%s': %s", name, group, error)
        elif error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            log.warning("%s=%s is not set for group '%s', whose settings this user may not change", name, value, group)
        else:
            raise


def _create(admin: Admin, topic: str, settings: dict[str, str]) -> None:
    try:
        admin.create_topic(topic, partitions=None, settings=settings, exist_ok=True)
    except BrokerError as error:
        if error.code not in UNKNOWN_THERE:
            raise
        admin.create_topic(topic, partitions=None, exist_ok=True)
