"""Every setting that a group may have of its own reaches what the group works with, and a test there shows what it does.

The settings of brokers and topics have such a table of their own (`integration/test_every_setting_is_proven.py`)."""

from collections.abc import Mapping
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from headrace.broker.coordinators.groups.settings import group_settings, with_own
from headrace.broker.sharing.settings import ShareSettingsView
from headrace.model.broker_settings import BrokerConfig
from headrace.model.group_settings import DEAD_LETTER_TOPIC, GROUP_SETTINGS
from tests.support.setting_proofs import names_of_tests, sets


class Proof(NamedTuple):
    """Another value, what it is called where it takes effect, and the test there."""

    value: str
    field: str
    path: str
    test: str


OWN = "unit/coordination/group/test_own_settings.py"
MEMBERS = "unit/coordination/share/test_share_groups.py"
STATE = "unit/coordination/share/test_share_partition.py"
HANDLERS = "unit/broker/sharing/test_share_handlers.py"
BREAKER = "unit/coordination/share/test_share_breaker.py"
WIRE = "integration/test_share_groups_wire.py"
BURIALS = "unit/broker/sharing/test_dead_letters_of_share_groups.py"
LETTERS = "integration/test_share_dead_letters.py"
PAUSED = "test_a_group_whose_records_are_given_up_is_paused_and_says_so"
PROOFS = {
    "consumer.session.timeout.ms": Proof(
        "50000", "consumer_session_timeout_ms", OWN, "test_a_members_session_lasts_as_long_as_its_group_says"
    ),
    "consumer.heartbeat.interval.ms": Proof(
        "7000", "consumer_heartbeat_interval_ms", OWN, "test_members_are_told_their_own_groups_interval"
    ),
    "consumer.assignment.interval.ms": Proof(
        "1000", "consumer_assignment_interval_ms", OWN, "test_a_group_assigns_anew_no_sooner_than_it_says"
    ),
    "share.session.timeout.ms": Proof(
        "50000", "share_session_timeout_ms", MEMBERS, "test_a_loaded_member_has_a_full_session_to_be_heard_of"
    ),
    "share.heartbeat.interval.ms": Proof(
        "7000", "share_heartbeat_interval_ms", MEMBERS, "test_members_are_told_how_often_to_be_heard_of"
    ),
    "share.record.lock.duration.ms": Proof(
        "20000", "lock_duration_ms", WIRE, "test_a_lock_lasts_as_long_as_the_broker_or_the_group_says"
    ),
    "share.delivery.count.limit": Proof(
        "2", "delivery_count_limit", HANDLERS, "test_what_is_released_goes_to_the_next_and_its_deliveries_are_counted"
    ),
    "share.partition.max.record.locks": Proof("300", "max_record_locks", STATE, "test_no_more_than_the_limit_is_under_way"),
    "share.auto.offset.reset": Proof("earliest", "offset_reset", WIRE, "test_a_group_may_begin_so_long_ago"),
    "share.isolation.level": Proof(
        "read_committed", "committed_only", WIRE, "test_with_read_committed_nobody_gets_what_is_undecided_or_was_aborted"
    ),
    "share.renew.acknowledge.enable": Proof("false", "renewal_enabled", STATE, "test_a_group_may_refuse_to_renew"),
    "headrace.share.backoff.ms": Proof(
        "60000", "backoff_ms", HANDLERS, "test_what_is_released_rests_and_others_need_not_wait_for_it"
    ),
    "headrace.share.paused": Proof(
        "true", "is_paused", HANDLERS, "test_a_group_that_is_paused_gets_nothing_and_may_finish_what_it_has"
    ),
    "headrace.share.breaker.percent": Proof("50", "percent", HANDLERS, PAUSED),
    "headrace.share.breaker.records": Proof("2", "records", HANDLERS, PAUSED),
    "headrace.share.breaker.pause.ms": Proof("1000", "pause_ms", BREAKER, "test_after_the_pause_a_tenth_as_many_decide"),
    "headrace.share.breaker.resumed.ms": Proof(
        "600", "resumed_ms", BREAKER, "test_somebody_who_has_looked_ends_the_pause_and_it_begins_as_new"
    ),
    "errors.deadletterqueue.topic.name": Proof("dead-a", "topic", LETTERS, "test_a_topic_gets_no_letters_that_does_not_allow_it"),
    "errors.deadletterqueue.copy.record.enable": Proof(
        "true", "copies_record", BURIALS, "test_without_copies_a_letter_has_headers_alone"
    ),
}


def in_effect(texts: Mapping[str, str]) -> dict[str, Any]:
    """All that a group with these settings works with, by name."""
    image = cast("Any", SimpleNamespace(group_configs={"g": texts}))
    shared = ShareSettingsView(BrokerConfig(), lambda: image)("g")
    coordinated = with_own(group_settings(BrokerConfig()), texts)
    return {**named(coordinated), **named(shared.burial), **named(shared.breaker), **named(shared.limits), **named(shared)}


def named(values: Any) -> dict[str, Any]:
    """The single values of a dataclass or a tuple with names."""
    if values is None:
        return {}
    names = getattr(values, "_fields", None) or [field.name for field in fields(values)]
    found = {name: getattr(values, name) for name in names}
    return {name: value for name, value in found.items() if name not in ("burial", "breaker", "limits")}


def test_every_setting_of_a_group_has_a_proof() -> None:
    assert PROOFS.keys() == GROUP_SETTINGS.by_name.keys()


@pytest.mark.parametrize("name", PROOFS)
def test_a_groups_setting_is_handed_on_under_the_name_that_its_test_uses(name: str) -> None:
    value, field, path, test = PROOFS[name]
    others = {} if name == DEAD_LETTER_TOPIC else {DEAD_LETTER_TOPIC: "dead-letters"}
    before, after = in_effect(others), in_effect(others | {name: value})

    assert after[field] != before.get(field)
    assert test in names_of_tests(path)
    assert sets(path, test, GROUP_SETTINGS[name], name.replace(".", "_")) or sets(path, test, GROUP_SETTINGS[name], field)
