"""Every setting does what it says, or says that it does nothing.

`PROOFS` names for each broker and topic setting a test that gives it another value and sees the difference; that such a test
exists and sets it is checked by reading it.  A setting without a row fails.  Where that test makes a part of the broker without
the rest, the setting has another name there, and a test here shows that the broker hands it on under that name.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

import pytest

from headrace.broker.coordinators.groups.settings import group_settings
from headrace.broker.coordinators.transactions.coordinator import transaction_settings
from headrace.model.broker_settings import BROKER_SETTINGS, BrokerConfig
from headrace.model.settings import Setting
from headrace.model.topic_settings import TOPIC_SETTINGS, LogConfig
from tests.support.setting_proofs import names_of_tests, sets


class Proof(NamedTuple):
    """A test that shows a setting's effect."""

    path: str
    test: str
    # What the setting is called where the test sets it, and who hands it on under that name.
    field: str = ""
    handed_on: Callable[[BrokerConfig], Any] | None = None


TRAIL = "integration/test_request_trail.py"
DELAYED = "integration/test_delayed_delivery.py"
DELAYS = "integration/test_delays_cluster.py"
EFFECTS = "integration/test_settings_have_effects.py"
DELETIONS = "integration/test_delayed_deletions.py"
SIGN_IN = "integration/test_sign_in.py"
ATTACKS = "integration/test_attacks.py"
TLS = "integration/test_tls.py"
OF_ONE_LISTENER = "integration/test_settings_of_one_listener.py"
LISTENERS = "integration/test_listeners.py"
ACCESS = "integration/test_access_rules.py"
AUDIT = "integration/test_audit_unavailable.py"
MEMORY = "integration/test_bounded_memory.py"
CLEANING = "integration/test_cleaning.py"
CLUSTER = "integration/test_cluster_administration.py"
GROUP = "unit/coordination/group/"
TRANSACTION = "unit/coordination/transaction/"
CONTRACT = "unit/log/test_log_contract.py"
COMPACTION = "unit/log/test_compaction_rules.py"
EXPIRY = "unit/log/test_expiry_rules.py"
DEAD_LETTERS = "integration/test_share_dead_letters.py"
SHARES = "integration/test_share_groups_wire.py"
SHARE_GROUPS = "unit/coordination/share/test_share_groups.py"
PRODUCERS = "unit/log/test_producer_contract.py"
RETENTION = "unit/log/test_retention_rules.py"
SEGMENTS = "unit/log/test_segments_and_indexes.py"


def here(test: str) -> Proof:
    return Proof(EFFECTS, test)


def of_group(path: str, test: str, field: str) -> Proof:
    return Proof(GROUP + path, test, field, group_settings)


def of_transaction(path: str, test: str, field: str) -> Proof:
    return Proof(TRANSACTION + path, test, field, transaction_settings)


TIERED = "integration/test_tiered_storage.py"
RECOVERY = "integration/test_recovery_from_the_store.py"
TIER_FAULTS = "integration/test_tiered_faults.py"
SCHEMAS = "integration/test_schema_validation.py"
THROTTLED = Proof(CLUSTER, "test_a_throttled_move_takes_its_time_and_arrives")
FOLLOWER = here("test_followers_fetch_as_they_are_set")
BALANCE = here("test_leadership_is_balanced_where_and_as_often_as_is_set")
OFFSETS_TOPIC = here("test_the_topic_of_offsets_is_made_as_it_is_set")
TRANSACTIONS_TOPIC = here("test_the_topic_of_transactions_is_made_as_it_is_set")
SHARE_STATE_TOPIC = here("test_the_topic_of_share_groups_states_is_made_as_it_is_set")
OF_SHARE_GROUPS = Proof(SHARES, "test_a_share_group_sets_nothing_outside_of_what_the_broker_allows")
OF_GROUPS = here("test_a_group_sets_nothing_outside_of_what_the_broker_allows")
ETCD = here("test_etcd_is_asked_where_it_is_by_whom_and_for_what_is_set")
CERTIFICATES = here("test_the_certificates_for_etcd_are_those_that_are_set")
SESSIONS = here("test_a_member_may_ask_for_sessions_within_the_limits_that_are_set")
INTERVALS = here("test_records_are_flushed_at_the_interval_that_is_set")
PROOFS: dict[str, Proof] = {
    # -- the broker's place
    "node.id": here("test_clients_are_told_the_number_and_the_rack_that_are_set"),
    "broker.rack": here("test_clients_are_told_the_number_and_the_rack_that_are_set"),
    "listeners": Proof(LISTENERS, "test_a_client_is_told_the_addresses_of_the_listener_it_came_in_by"),
    "advertised.listeners": here("test_clients_are_told_what_is_advertised"),
    "listener.security.protocol.map": Proof(
        "unit/model/test_listener_settings.py", "test_a_listener_has_the_protocol_that_it_is_mapped_to"
    ),
    "inter.broker.listener.name": Proof(LISTENERS, "test_brokers_talk_over_the_inter_broker_listener_and_clients_over_theirs"),
    "headrace.log.format": Proof("unit/cli/test_serve_logs.py", "test_json_is_chosen_by_a_setting"),
    "headrace.log.file": Proof("unit/cli/test_serve_logs.py", "test_a_full_file_is_set_aside_and_only_so_many_are_kept"),
    "headrace.log.file.max.bytes": Proof(
        "unit/cli/test_serve_logs.py", "test_a_full_file_is_set_aside_and_only_so_many_are_kept"
    ),
    "headrace.log.files": Proof("unit/cli/test_serve_logs.py", "test_a_full_file_is_set_aside_and_only_so_many_are_kept"),
    "headrace.log.repeats.max": Proof(
        "unit/cli/test_serve_logs.py", "test_lines_go_to_standard_error_and_say_how_many_were_left_out"
    ),
    "headrace.health.listener": Proof("integration/test_health.py", "test_a_broker_that_serves_is_alive_and_ready"),
    "headrace.metrics.listener": Proof(
        "integration/test_metrics_pages.py", "test_metrics_are_told_at_their_own_address_and_where_health_is"
    ),
    "headrace.trace.sample.ratio": Proof(TRAIL, "test_a_broker_exports_spans_of_its_requests_with_links_to_those_of_the_records"),
    "headrace.trace.otlp.endpoint": Proof(
        TRAIL, "test_a_broker_exports_spans_of_its_requests_with_links_to_those_of_the_records"
    ),
    # -- TLS
    "ssl.keystore.type": Proof(TLS, "test_a_broker_whose_tls_cannot_work_does_not_start"),
    "ssl.keystore.location": Proof(TLS, "test_a_certificate_about_to_expire_is_warned_about"),
    "headrace.ssl.sni.keystore.locations": Proof(
        OF_ONE_LISTENER, "test_a_client_is_shown_the_certificate_of_the_host_that_it_asks_for"
    ),
    "ssl.key.password": Proof(TLS, "test_an_encrypted_key_needs_its_password"),
    "ssl.truststore.type": Proof(TLS, "test_a_broker_whose_tls_cannot_work_does_not_start"),
    "ssl.truststore.location": Proof(TLS, "test_a_broker_whose_tls_cannot_work_does_not_start"),
    "ssl.client.auth": Proof(TLS, "test_a_certificate_is_demanded_where_it_is_required"),
    "ssl.enabled.protocols": Proof(TLS, "test_old_versions_of_tls_are_refused_and_the_versions_are_those_that_are_set"),
    "ssl.endpoint.identification.algorithm": Proof(TLS, "test_brokers_talk_by_tls_and_check_each_others_hosts_where_that_is_set"),
    "ssl.principal.mapping.rules": Proof(TLS, "test_a_certificates_name_becomes_a_principal_by_the_rules"),
    # -- SASL
    "headrace.audit": Proof(AUDIT, "test_without_security_nothing_is_recorded_unless_it_is_asked_for"),
    "headrace.audit.when.unavailable": Proof(AUDIT, "test_acts_may_be_allowed_that_are_recorded_later"),
    "headrace.audit.timeout.ms": Proof(AUDIT, "test_an_act_that_cannot_be_recorded_is_refused_and_not_done"),
    "headrace.remote.url": Proof(TIERED, "test_old_records_are_read_from_the_store_when_the_disk_no_longer_has_them"),
    "headrace.remote.timeout.ms": Proof(TIER_FAULTS, "test_the_store_has_the_time_that_is_set"),
    "headrace.remote.upload.bytes.per.second": Proof(TIER_FAULTS, "test_uploads_are_no_faster_than_is_set"),
    "headrace.remote.cache.bytes": Proof(TIER_FAULTS, "test_the_cache_takes_no_more_of_the_disk_than_is_set"),
    "headrace.remote.sweep.interval.ms": Proof(TIER_FAULTS, "test_one_failure_at_any_step_of_an_upload_costs_nothing"),
    "headrace.remote.sweep.grace.ms": Proof(TIER_FAULTS, "test_one_failure_at_any_step_of_an_upload_costs_nothing"),
    "remote.log.manager.task.interval.ms": Proof(
        TIERED, "test_old_records_are_read_from_the_store_when_the_disk_no_longer_has_them"
    ),
    "remote.fetch.max.wait.ms": Proof(TIER_FAULTS, "test_a_fetch_does_not_wait_for_the_store_longer_than_is_set"),
    "headrace.delay.topic.num.partitions": Proof(DELAYS, "test_the_topic_of_what_waits_is_made_as_it_is_set"),
    "headrace.delay.topic.replication.factor": Proof(DELAYS, "test_the_topic_of_what_waits_is_made_as_it_is_set"),
    "headrace.delay.clock.confirm.ms": Proof(DELAYS, "test_a_clock_that_is_set_ahead_delivers_nothing_before_it_is_confirmed"),
    "headrace.audit.topic.replication.factor": Proof(AUDIT, "test_the_number_of_replicas_and_how_long_they_keep_it_are_settings"),
    "headrace.audit.topic.retention.ms": Proof(AUDIT, "test_the_number_of_replicas_and_how_long_they_keep_it_are_settings"),
    "headrace.audit.file": Proof(AUDIT, "test_every_event_is_a_line_in_a_file_too_and_a_file_that_is_moved_away_is_made_anew"),
    "headrace.audit.syslog": Proof(AUDIT, "test_every_event_goes_to_a_syslog_too"),
    "sasl.mechanism.inter.broker.protocol": Proof(SIGN_IN, "test_brokers_sign_in_at_each_other"),
    "headrace.sasl.inter.broker.user": Proof(SIGN_IN, "test_brokers_sign_in_at_each_other"),
    "headrace.sasl.inter.broker.password.file": Proof(SIGN_IN, "test_brokers_sign_in_at_each_other"),
    "sasl.enabled.mechanisms": Proof(SIGN_IN, "test_plain_without_tls_is_for_those_who_ask_for_it"),
    "headrace.sasl.plain.without.tls": Proof(SIGN_IN, "test_plain_without_tls_is_for_those_who_ask_for_it"),
    "sasl.server.max.receive.size": Proof(SIGN_IN, "test_what_is_read_of_strangers_is_limited_as_is_set"),
    "connections.max.reauth.ms": Proof(SIGN_IN, "test_who_does_not_sign_in_again_in_time_is_cut_off"),
    "connection.failed.authentication.delay.ms": Proof(SIGN_IN, "test_a_failed_sign_in_costs_the_time_that_is_set"),
    "sasl.oauthbearer.jwks.endpoint.url": Proof(SIGN_IN, "test_tokens_that_could_not_be_checked_are_not_offered"),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": Proof(SIGN_IN, "test_tokens_are_read_as_is_set_and_keys_fetched_as_often"),
    "sasl.oauthbearer.expected.issuer": Proof(SIGN_IN, "test_a_token_that_is_not_for_us_lets_nobody_in"),
    "sasl.oauthbearer.expected.audience": Proof(SIGN_IN, "test_a_token_that_is_not_for_us_lets_nobody_in"),
    "sasl.oauthbearer.sub.claim.name": Proof(SIGN_IN, "test_tokens_are_read_as_is_set_and_keys_fetched_as_often"),
    "sasl.oauthbearer.clock.skew.seconds": Proof(SIGN_IN, "test_tokens_are_read_as_is_set_and_keys_fetched_as_often"),
    "sasl.oauthbearer.scope.claim.name": Proof(ATTACKS, "test_a_token_needs_the_scopes_that_are_set"),
    "headrace.sasl.oauthbearer.required.scopes": Proof(ATTACKS, "test_a_token_needs_the_scopes_that_are_set"),
    "headrace.sasl.oauthbearer.groups.claim.name": Proof(SIGN_IN, "test_librdkafka_signs_in_with_a_token"),
    # -- who may do what
    "authorizer": Proof(ACCESS, "test_nobody_may_anything_where_the_authorizer_is_set_and_no_rule_allows_it"),
    "authorizer.class.name": Proof(ACCESS, "test_the_authorizer_can_be_set_by_its_name_in_kafka"),
    "super.users": Proof(ACCESS, "test_super_users_may_everything_and_nobody_else"),
    "allow.everyone.if.no.acl.found": Proof(ACCESS, "test_what_no_rule_is_about_is_free_where_that_is_set"),
    # -- what it keeps, and where
    "log.dirs": here("test_records_are_on_the_disk_where_it_is_set_or_nowhere"),
    "headrace.memory": here("test_records_are_on_the_disk_where_it_is_set_or_nowhere"),
    "headrace.metadata": ETCD,
    "headrace.metadata.namespace": ETCD,
    "headrace.metadata.user": ETCD,
    "headrace.metadata.password": ETCD,
    "headrace.metadata.ca": CERTIFICATES,
    "headrace.metadata.certificate": CERTIFICATES,
    "headrace.metadata.key": CERTIFICATES,
    "broker.session.timeout.ms": Proof(
        "integration/test_lost_lease.py", "test_it_leaves_the_store_alone_until_it_is_registered_again"
    ),
    # -- limits
    "telemetry.max.bytes": Proof("integration/test_client_telemetry.py", "test_too_much_is_refused_before_it_is_unpacked"),
    "socket.request.max.bytes": here("test_a_larger_request_than_is_allowed_ends_its_connection"),
    "connections.max.idle.ms": here("test_a_silent_connection_is_closed_when_its_time_is_over"),
    "max.connections": here("test_one_connection_too_many_is_refused"),
    "headrace.connection.requests.max": here("test_a_connection_with_too_many_requests_under_way_is_not_read"),
    "headrace.connection.reply.bytes.max": here("test_a_connection_with_too_many_bytes_held_for_it_is_not_read"),
    "headrace.connections.bytes.max": Proof(MEMORY, "test_many_half_sent_requests_all_complete_in_a_small_room"),
    "queued.max.request.bytes": Proof(MEMORY, "test_half_sent_large_requests_share_a_bounded_room"),
    "headrace.connection.bytes.per.second.min": Proof(MEMORY, "test_a_trickle_is_cut_and_what_is_sent_fast_enough_is_not"),
    "headrace.connection.slow.ms": Proof(MEMORY, "test_announced_requests_lock_nobody_out_and_are_cut"),
    "fetch.max.bytes": here("test_one_reply_carries_no_more_than_is_set"),
    "headrace.partitions.max": Proof(
        "integration/test_request_limits.py", "test_a_broker_holds_as_many_partitions_as_its_setting_allows"
    ),
    "log.dir.reserved.bytes": Proof(
        "integration/test_full_disk.py", "test_a_full_disk_is_read_emptied_and_written_again_without_a_restart"
    ),
    "producer.id.expiration.ms": Proof(PRODUCERS, "test_a_producer_quiet_for_too_long_is_forgotten"),
    "headrace.disk.slow.ms": Proof(
        "integration/test_degraded.py", "test_a_broker_whose_flushes_are_slow_is_degraded_and_says_by_how_much"
    ),
    # -- topics
    "auto.create.topics.enable": here("test_no_topic_is_created_by_naming_it_where_that_is_switched_off"),
    "num.partitions": Proof(
        "integration/test_auto_created_topics.py",
        "test_the_first_answer_says_unknown_and_the_topic_is_usable_as_soon_as_it_is_seen",
    ),
    "default.replication.factor": here("test_a_topic_that_does_not_say_gets_the_replicas_that_are_set"),
    "delete.topic.enable": here("test_topics_stay_where_delete_topic_enable_is_false"),
    # -- housekeeping
    "log.retention.check.interval.ms": Proof(
        "integration/test_administration.py", "test_retention_by_time_and_size_removes_whole_segments_in_the_background"
    ),
    "log.cleaner.enable": here("test_compaction_runs_where_log_cleaner_enable_says_so"),
    "log.cleaner.backoff.ms": here("test_the_cleaner_rests_for_as_long_as_it_is_told_at_run_time"),
    "log.flush.offset.checkpoint.interval.ms": here("test_recovery_points_are_written_down_as_often_as_is_set"),
    # -- coordinators
    "offsets.topic.num.partitions": OFFSETS_TOPIC,
    "offsets.topic.replication.factor": OFFSETS_TOPIC,
    "offsets.topic.segment.bytes": OFFSETS_TOPIC,
    "offsets.retention.minutes": of_group(
        "test_group_offsets.py",
        "test_offsets_of_a_consumer_that_assigns_itself_expire_from_its_last_commit",
        "offsets_retention_ms",
    ),
    "offsets.retention.check.interval.ms": of_group(
        "test_group_offsets.py",
        "test_expired_offsets_are_looked_for_as_often_as_is_set",
        "offsets_retention_check_interval_ms",
    ),
    "offsets.commit.timeout.ms": here("test_a_commit_that_no_replica_confirms_is_refused_in_time"),
    "offset.metadata.max.bytes": of_group(
        "test_group_offsets.py",
        "test_a_note_that_is_too_long_is_refused_but_its_neighbours_are_kept",
        "offset_metadata_max_bytes",
    ),
    "group.min.session.timeout.ms": SESSIONS,
    "group.max.session.timeout.ms": SESSIONS,
    "group.initial.rebalance.delay.ms": of_group(
        "test_classic_joining.py",
        "test_a_new_group_waits_the_initial_delay_for_more_members",
        "initial_rebalance_delay_ms",
    ),
    "group.max.size": of_group("test_classic_joining.py", "test_a_full_group_refuses_newcomers", "max_size"),
    "group.consumer.session.timeout.ms": of_group(
        "test_own_settings.py", "test_a_members_session_lasts_as_long_as_its_group_says", "consumer_session_timeout_ms"
    ),
    "group.consumer.heartbeat.interval.ms": of_group(
        "test_own_settings.py", "test_members_are_told_their_own_groups_interval", "consumer_heartbeat_interval_ms"
    ),
    "group.consumer.min.session.timeout.ms": OF_GROUPS,
    "group.consumer.max.session.timeout.ms": OF_GROUPS,
    "group.consumer.min.heartbeat.interval.ms": OF_GROUPS,
    "group.consumer.max.heartbeat.interval.ms": OF_GROUPS,
    "group.consumer.min.assignment.interval.ms": OF_GROUPS,
    "group.consumer.max.assignment.interval.ms": OF_GROUPS,
    "group.consumer.max.size": of_group(
        "test_consumer_groups.py", "test_a_full_group_refuses_newcomers_but_not_its_members", "consumer_max_size"
    ),
    "group.consumer.assignors": here("test_an_assignor_that_is_not_set_is_refused"),
    "group.consumer.assignment.interval.ms": of_group(
        "test_consumer_groups.py",
        "test_targets_follow_each_other_no_faster_than_the_interval_set",
        "consumer_assignment_interval_ms",
    ),
    "group.consumer.migration.policy": of_group(
        "test_group_migration.py", "test_a_group_without_migration_refuses_classic_members", "migration_policy"
    ),
    "group.consumer.regex.refresh.interval.ms": of_group(
        "test_consumer_groups.py",
        "test_a_pattern_forgets_topics_that_are_gone_at_the_interval_that_is_set",
        "consumer_regex_refresh_interval_ms",
    ),
    "request.timeout.ms": here("test_a_transaction_that_no_replica_confirms_is_refused_in_time"),
    "group.share.session.timeout.ms": Proof(
        SHARE_GROUPS, "test_a_loaded_member_has_a_full_session_to_be_heard_of", "share_session_timeout_ms", group_settings
    ),
    "group.share.heartbeat.interval.ms": Proof(
        SHARE_GROUPS, "test_members_are_told_how_often_to_be_heard_of", "share_heartbeat_interval_ms", group_settings
    ),
    "group.share.max.size": Proof(SHARE_GROUPS, "test_a_group_has_so_many_members_at_most", "share_max_size", group_settings),
    **{
        f"group.share.{end}.{kind}": OF_SHARE_GROUPS
        for end in ("min", "max")
        for kind in (
            "session.timeout.ms",
            "heartbeat.interval.ms",
            "record.lock.duration.ms",
            "delivery.count.limit",
            "partition.max.record.locks",
        )
    },
    "errors.deadletterqueue.topic.name.prefix": Proof(DEAD_LETTERS, "test_dead_letters_go_only_to_topics_that_are_named_for_it"),
    "group.share.record.lock.duration.ms": Proof(SHARES, "test_a_lock_lasts_as_long_as_the_broker_or_the_group_says"),
    "group.share.delivery.count.limit": Proof(SHARES, "test_a_record_is_delivered_so_often_at_most"),
    "group.share.partition.max.record.locks": Proof(SHARES, "test_so_many_records_of_a_partition_are_under_way_at_most"),
    "group.share.max.share.sessions": Proof(SHARES, "test_a_broker_has_so_many_share_sessions_at_most"),
    "share.coordinator.state.topic.num.partitions": SHARE_STATE_TOPIC,
    "share.coordinator.state.topic.replication.factor": SHARE_STATE_TOPIC,
    "share.coordinator.state.topic.min.isr": SHARE_STATE_TOPIC,
    "share.coordinator.state.topic.segment.bytes": SHARE_STATE_TOPIC,
    "share.coordinator.snapshot.update.records.per.snapshot": Proof(
        SHARES, "test_after_so_many_changes_all_of_a_state_is_written_again"
    ),
    "share.coordinator.write.timeout.ms": Proof(
        "integration/test_share_groups_cluster.py", "test_word_that_the_replicas_do_not_confirm_is_refused_in_time"
    ),
    "transaction.state.log.num.partitions": TRANSACTIONS_TOPIC,
    "transaction.state.log.replication.factor": TRANSACTIONS_TOPIC,
    "transaction.state.log.min.isr": TRANSACTIONS_TOPIC,
    "transaction.state.log.segment.bytes": TRANSACTIONS_TOPIC,
    "transaction.max.timeout.ms": here("test_a_producer_may_ask_for_no_longer_transactions_than_is_set"),
    "transactional.id.expiration.ms": of_transaction(
        "test_transaction_life.py",
        "test_a_transactional_id_is_remembered_for_as_long_as_is_set",
        "transactional_id_expiration_ms",
    ),
    "transaction.partition.verification.enable": Proof(
        "integration/test_transactions_verification.py",
        "test_verification_can_be_switched_off_for_older_producers",
    ),
    "transaction.two.phase.commit.enable": of_transaction(
        "test_transaction_producers.py",
        "test_two_phase_commit_is_refused_unless_the_broker_allows_it",
        "two_phase_commit_enable",
    ),
    # -- replication
    "replica.lag.time.max.ms": here("test_a_follower_that_lags_for_longer_than_is_set_leaves_the_in_sync_set"),
    "replica.fetch.wait.max.ms": FOLLOWER,
    "replica.fetch.min.bytes": FOLLOWER,
    "replica.fetch.max.bytes": FOLLOWER,
    "replica.fetch.response.max.bytes": FOLLOWER,
    "replica.fetch.backoff.ms": here("test_a_follower_rests_after_a_failed_fetch_for_as_long_as_is_set"),
    "replica.selector.class": Proof(CLUSTER, "test_a_consumer_is_sent_to_the_replica_in_its_rack_and_served_there"),
    "auto.leader.rebalance.enable": BALANCE,
    "leader.imbalance.check.interval.seconds": BALANCE,
    "controlled.shutdown.enable": here("test_a_stopping_broker_hands_over_where_controlled_shutdown_says_so"),
    "leader.replication.throttled.rate": THROTTLED,
    "follower.replication.throttled.rate": THROTTLED,
    # -- topic settings
    "cleanup.policy": Proof(CLEANING, "test_a_compacted_topic_keeps_the_last_value_of_each_key_in_every_codec"),
    "compression.type": Proof(CLEANING, "test_a_compacted_topic_keeps_the_last_value_of_each_key_in_every_codec"),
    "delete.retention.ms": Proof(CLEANING, "test_a_tombstone_removes_its_key_and_then_goes_itself"),
    "file.delete.delay.ms": Proof(DELETIONS, "test_the_files_of_removed_segments_stay_for_file_delete_delay_ms"),
    "flush.messages": INTERVALS,
    "flush.ms": INTERVALS,
    "follower.replication.throttled.replicas": THROTTLED,
    "headrace.flush": Proof(
        "unit/broker/test_flush_modes.py", "test_a_stricter_flush_mode_flushes_what_is_unflushed_at_once", "flush"
    ),
    "headrace.remote.from": Proof(RECOVERY, "test_a_lost_cluster_comes_back_from_the_store_alone"),
    "local.retention.bytes": Proof(TIERED, "test_local_retention_by_size_leaves_the_newest_on_disk"),
    "local.retention.ms": Proof(TIERED, "test_a_restart_finds_both_parts_again"),
    "remote.storage.enable": Proof(TIERED, "test_a_broker_without_a_store_refuses_tiered_topics"),
    "headrace.delay.enable": Proof(DELAYED, "test_what_is_due_comes_in_order_of_its_time_and_not_before"),
    "headrace.key.schema.validation": Proof(SCHEMAS, "test_a_key_must_begin_with_the_id_of_a_registered_schema"),
    "headrace.value.schema.validation": Proof(SCHEMAS, "test_a_value_must_begin_with_the_id_of_a_registered_schema"),
    "headrace.ttl.enable": Proof(
        EXPIRY, "test_segments_in_which_nothing_expires_are_read_once_and_never_rewritten", "message_ttl_enable"
    ),
    "index.interval.bytes": Proof(SEGMENTS, "test_the_offset_index_has_an_entry_for_the_first_batch_after_each_interval"),
    "leader.replication.throttled.replicas": THROTTLED,
    "max.compaction.lag.ms": Proof(COMPACTION, "test_too_little_dirt_is_not_worth_it_unless_it_is_overdue"),
    "max.message.bytes": Proof(
        "integration/test_sdk_first_contact.py", "test_a_record_too_large_for_its_topic_is_told_its_size_and_the_limit"
    ),
    "errors.deadletterqueue.group.enable": Proof(DEAD_LETTERS, "test_a_topic_gets_no_letters_that_does_not_allow_it"),
    "memory.full.policy": Proof(RETENTION, "test_a_full_memory_log_drops_its_oldest_when_told_so"),
    "memory.max.bytes": Proof(RETENTION, "test_a_memory_log_is_bounded_by_bytes_too"),
    "memory.max.messages": Proof(RETENTION, "test_a_full_memory_log_refuses_and_says_why"),
    "message.timestamp.after.max.ms": Proof(CONTRACT, "test_a_timestamp_too_far_in_the_future_is_refused"),
    "message.timestamp.before.max.ms": Proof(CONTRACT, "test_records_too_old_for_the_topic_are_refused_one_by_one"),
    "message.timestamp.type": Proof(CONTRACT, "test_the_brokers_time_is_stamped_where_the_topic_asks"),
    "min.cleanable.dirty.ratio": Proof(COMPACTION, "test_too_little_dirt_is_not_worth_it_unless_it_is_overdue"),
    "min.compaction.lag.ms": Proof(COMPACTION, "test_records_younger_than_the_lag_are_left_alone"),
    "min.insync.replicas": Proof("unit/replication/test_leader.py", "test_below_the_minimum_nothing_is_written_or_committed"),
    "retention.bytes": Proof(RETENTION, "test_segments_go_while_the_log_is_too_large"),
    "retention.ms": Proof(
        "integration/test_administration.py", "test_retention_by_time_and_size_removes_whole_segments_in_the_background"
    ),
    "segment.bytes": Proof(SEGMENTS, "test_a_segment_rolls_by_size_before_it_would_grow_beyond"),
    "internal.segment.bytes": Proof(DELETIONS, "test_the_files_of_removed_segments_stay_for_file_delete_delay_ms"),
    "segment.index.bytes": Proof(SEGMENTS, "test_a_segment_rolls_when_its_index_is_full_and_when_offsets_no_longer_fit"),
    "segment.jitter.ms": Proof(SEGMENTS, "test_logs_begun_together_roll_at_times_that_the_jitter_spreads"),
    "segment.ms": Proof(SEGMENTS, "test_a_segment_rolls_by_the_time_of_its_records"),
    "unclean.leader.election.enable": Proof(
        "integration/test_unclean_elections.py", "test_where_the_topic_does_not_allow_one_there_is_none"
    ),
}
# The defaults of topic settings: they are proven by what a topic that sets nothing works with.
SYNONYMS = {synonym: setting for setting in TOPIC_SETTINGS for synonym in setting.synonyms}
TABLE = {setting.name: setting for setting in BROKER_SETTINGS if setting.name not in SYNONYMS} | TOPIC_SETTINGS.by_name


def another(setting: Setting) -> str:
    """A text that the setting accepts and that is not its default."""
    if setting.choices:
        return next(choice for choice in setting.choices if choice not in str(setting.default))
    if isinstance(setting.default, bool):
        return str(not setting.default).lower()
    if isinstance(setting.default, float):
        return "0.7"
    return "11000" if setting.maximum is not None and setting.maximum < 2_000_000 else "2000000"


def rows(handed_on: bool) -> Iterator[str]:
    return (name for name, proof in sorted(PROOFS.items()) if not handed_on or proof.handed_on is not None)


def test_every_setting_has_a_proof_or_is_marked_as_of_no_effect() -> None:
    unproven = {name for name, setting in TABLE.items() if not setting.compatibility and name not in PROOFS}
    marked = {name for name, setting in TABLE.items() if setting.compatibility and name in PROOFS}

    assert not unproven, "add a row to PROOFS, or mark it as taken for compatibility only"
    assert not marked, "what has a proof is not of no effect"
    assert not PROOFS.keys() - TABLE.keys()


@pytest.mark.parametrize("name", list(rows(handed_on=False)))
def test_the_test_that_is_named_exists_and_gives_the_setting_another_value(name: str) -> None:
    proof = PROOFS[name]

    assert proof.test in names_of_tests(proof.path)
    assert sets(proof.path, proof.test, TABLE[name], proof.field or name.replace(".", "_"))


@pytest.mark.parametrize("name", list(rows(handed_on=True)))
def test_a_setting_is_handed_on_under_the_name_that_its_test_uses(name: str) -> None:
    proof = PROOFS[name]
    assert proof.handed_on is not None

    text = another(TABLE[name])
    # What groups get has to lie within what they may set.
    most = name.replace("group.consumer.", "group.consumer.max.").replace("group.share.", "group.share.max.")
    given = proof.handed_on(BrokerConfig({name: text, most: text} if most in TABLE else {name: text}))

    assert getattr(given, proof.field) != getattr(proof.handed_on(BrokerConfig()), proof.field)


@pytest.mark.parametrize("name", sorted(name for name in SYNONYMS if not BROKER_SETTINGS[name].compatibility))
def test_a_default_for_topics_is_what_a_topic_works_with_that_sets_nothing(name: str) -> None:
    assert BrokerConfig({name: another(BROKER_SETTINGS[name])}).topic_defaults() != BrokerConfig().topic_defaults()


def test_every_setting_of_a_log_is_one_of_a_topic_or_of_the_broker() -> None:
    derived = {
        "headrace.delay.enable": "delay_enable",
        "headrace.flush": "flush",
        "headrace.key.schema.validation": "key_schema_validation",
        "headrace.remote.from": "remote_from",
        "headrace.ttl.enable": "message_ttl_enable",
        "headrace.value.schema.validation": "value_schema_validation",
    }
    known = {derived.get(name, name.replace(".", "_")) for name in TABLE}

    assert {field.name for field in fields(LogConfig)} <= known
