"""Every metric moves when what it counts happens.

`PROOFS` names for each metric a test, of the modules in `metrics` or beside, that makes it happen and sees the metric move.  One
without a row fails, and so does a row whose test does not speak of the metric.
"""

import inspect
from collections.abc import Callable

import pytest

from tests.integration import test_client_telemetry as client_telemetry
from tests.integration import test_metrics_of_disks_and_replicas as disks_and_replicas
from tests.integration import test_metrics_of_tiering as of_tiering
from tests.integration import test_request_trail as request_trail
from tests.integration.metrics import test_metrics_of_groups as of_groups
from tests.integration.metrics import test_metrics_of_records as of_records
from tests.integration.metrics import test_metrics_of_requests as of_requests
from tests.integration.metrics import test_metrics_of_the_process as of_the_process
from tests.support.metrics import all_families

PROOFS: dict[Callable[..., None], tuple[str, ...]] = {
    of_tiering.test_tiered_storage: (
        "headrace_remote_uploaded_segments_total",
        "headrace_remote_uploaded_bytes_total",
        "headrace_remote_pending_bytes",
        "headrace_remote_pending_seconds",
        "headrace_remote_size_bytes",
        "headrace_remote_deleted_objects_total",
        "headrace_remote_failures_total",
        "headrace_remote_fetched_bytes_total",
        "headrace_remote_cache_bytes",
    ),
    of_records.test_delayed_records: (
        "headrace_delayed_records",
        "headrace_delayed_records_by_topic",
        "headrace_delayed_next_due_timestamp_seconds",
        "headrace_delayed_overdue_seconds",
        "headrace_delayed_delivered_total",
        "headrace_delayed_late_seconds",
    ),
    of_records.test_records_that_go_in_and_out: (
        "headrace_produced_records_total",
        "headrace_produced_bytes_total",
        "headrace_consumed_records_total",
        "headrace_consumed_bytes_total",
        "headrace_log_size_bytes",
        "headrace_batch_size_bytes",
        "headrace_batch_records",
        "headrace_partition_produced_records_total",
        "headrace_partition_produced_bytes_total",
        "headrace_partition_consumed_records_total",
        "headrace_partition_consumed_bytes_total",
        "headrace_partition_high_watermark",
        "headrace_partition_end_offset",
        "headrace_partition_size_bytes",
    ),
    of_records.test_segments_and_where_a_log_begins: (
        "headrace_log_segments",
        "headrace_partition_segments",
        "headrace_partition_start_offset",
    ),
    of_requests.test_requests_and_their_time: (
        "headrace_requests_total",
        "headrace_request_phase_seconds",
        "headrace_network_received_bytes_total",
        "headrace_network_sent_bytes_total",
    ),
    of_requests.test_a_request_that_waits_is_in_flight_and_its_wait_is_told: ("headrace_requests_in_flight",),
    of_requests.test_a_request_whose_client_has_gone: ("headrace_requests_given_up_total",),
    of_requests.test_errors_by_api: ("headrace_request_errors_total", "headrace_append_failures_total"),
    of_records.test_a_batch_that_is_sent_twice: ("headrace_duplicate_batches_total",),
    of_records.test_a_batch_that_is_not_what_its_checksum_says: ("headrace_corrupt_batches_total",),
    of_records.test_who_waits_for_an_append: ("headrace_appends_waiting",),
    of_requests.test_connections_and_those_who_make_them: (
        "headrace_connections",
        "headrace_connections_opened_total",
        "headrace_client_connections",
        "headrace_client_requests_total",
        "headrace_client_received_bytes_total",
        "headrace_client_sent_bytes_total",
    ),
    of_requests.test_connections_that_are_not_kept: ("headrace_requests_unreadable_total", "headrace_connections_cut_off_total"),
    of_requests.test_connections_that_are_refused: ("headrace_connections_refused_total",),
    of_requests.test_a_request_that_fails_in_the_broker: ("headrace_requests_failed_total",),
    of_requests.test_memory_of_connections: ("headrace_connections_memory_bytes", "headrace_connections_memory_limit_bytes"),
    of_requests.test_time_for_which_clients_had_to_wait: ("headrace_throttled_seconds_total",),
    of_the_process.test_the_process: (
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
        "headrace_process_threads",
        "python_info",
    ),
    of_the_process.test_garbage: (
        "python_gc_collections_total",
        "python_gc_objects_collected_total",
        "python_gc_objects_uncollectable_total",
        "headrace_gc_pause_seconds_total",
    ),
    disks_and_replicas.test_what_is_not_flushed: ("headrace_unflushed_records",),
    disks_and_replicas.test_what_followers_copy: (
        "headrace_replicated_out_bytes_total",
        "headrace_replicated_in_bytes_total",
        "headrace_fetch_sessions",
        "headrace_fetch_session_partitions",
    ),
    disks_and_replicas.test_flushes_and_a_disk_that_fails: (
        "headrace_flush_seconds",
        "headrace_flush_failures_total",
        "headrace_partitions_offline",
    ),
    disks_and_replicas.test_reads_that_wait_for_the_disk: ("headrace_cold_read_seconds",),
    disks_and_replicas.test_room_on_the_disk: (
        "headrace_disk_size_bytes",
        "headrace_disk_free_bytes",
        "headrace_disk_writable_bytes",
    ),
    disks_and_replicas.test_segments_that_go_and_logs_that_are_compacted: (
        "headrace_removed_segments_total",
        "headrace_removed_bytes_total",
        "headrace_removals_waiting",
        "headrace_cleaning_seconds",
        "headrace_cleaned_bytes_total",
        "headrace_cleaning_freed_bytes_total",
        "headrace_cleaning_backlog_bytes",
    ),
    disks_and_replicas.test_a_compaction_that_fails: ("headrace_cleaning_failures_total",),
    disks_and_replicas.test_replicas_that_fall_behind_and_come_back: (
        "headrace_partitions",
        "headrace_partitions_led",
        "headrace_partitions_by_in_sync",
        "headrace_partitions_under_replicated",
        "headrace_partitions_under_minimum",
        "headrace_elections_total",
        "headrace_in_sync_shrinks_total",
        "headrace_in_sync_expansions_total",
        "headrace_replication_lag_records",
        "headrace_replication_lag_bytes",
        "headrace_partition_leader",
        "headrace_partition_in_sync_replicas",
        "headrace_partition_replicas",
        "headrace_partition_replication_lag_records",
        "headrace_partition_replication_lag_bytes",
    ),
    disks_and_replicas.test_for_how_long_a_follower_has_been_behind: (
        "headrace_replication_lag_seconds",
        "headrace_partition_replication_lag_seconds",
    ),
    disks_and_replicas.test_the_cluster_as_a_broker_knows_it: (
        "headrace_cluster_brokers",
        "headrace_cluster_topics",
        "headrace_cluster_brokers_degraded",
        "headrace_cluster_has_controller",
        "headrace_controller",
        "headrace_controller_partitions_leaderless",
        "headrace_controller_partitions_moving",
        "headrace_cluster_unclean_elections_total",
        "headrace_lease_left_seconds",
        "headrace_metadata_round_trip_seconds",
        "headrace_metadata_failures_total",
        "headrace_metadata_revision",
    ),
    of_groups.test_groups_and_how_far_they_are_behind: (
        "headrace_groups",
        "headrace_group_members",
        "headrace_group_members_by_group",
        "headrace_group_offsets",
        "headrace_group_rebalance_seconds",
        "headrace_group_committed_offset",
        "headrace_group_lag_records",
        "headrace_group_lag_seconds",
        "headrace_groups_lag_records_max",
    ),
    of_groups.test_transactions: (
        "headrace_transactions_open",
        "headrace_transactions_oldest_seconds",
        "headrace_transactions_total",
    ),
    of_groups.test_share_groups_at_work: (
        "headrace_share_sessions",
        "headrace_share_records_in_flight",
        "headrace_share_deliveries_total",
        "headrace_share_outcomes_total",
        "headrace_share_group_lag_records",
        "headrace_share_lag_records",
        "headrace_share_group_in_flight_records",
        "headrace_share_group_dead_records_total",
        "headrace_share_group_oldest_seconds",
        "headrace_share_oldest_seconds",
    ),
    of_groups.test_a_dead_letter_that_its_topic_takes_at_no_size: ("headrace_share_letters_lost_total",),
    of_groups.test_a_share_group_that_its_breaker_pauses: (
        "headrace_share_breakers_open",
        "headrace_share_breaker_trips_total",
    ),
    request_trail.test_a_broker_exports_spans_of_its_requests_with_links_to_those_of_the_records: (
        "headrace_trace_spans_total",
        "headrace_trace_spans_dropped_total",
    ),
    of_the_process.test_sign_ins_denials_and_certificates: (
        "headrace_sign_ins_total",
        "headrace_denials_total",
        "headrace_certificate_expiry_seconds",
        "headrace_tls_handshake_failures_total",
    ),
    of_the_process.test_events_of_the_audit_trail_that_are_lost: ("headrace_audit_lost_events_total",),
    of_the_process.test_a_loop_that_is_late: ("headrace_loop_delay_seconds",),
    of_the_process.test_log_lines_and_those_that_say_the_same_again: (
        "headrace_log_lines_total",
        "headrace_log_lines_left_out_total",
    ),
    client_telemetry.test_what_it_tells_is_shown_whatever_it_is_packed_with: (
        "headrace_client_metric",
        "headrace_client_counter_total",
        "headrace_client_telemetry_pushes_total",
        "headrace_client_telemetry_series",
    ),
    client_telemetry.test_who_comes_too_early_is_told_so_and_not_heard: ("headrace_client_telemetry_instances",),
    client_telemetry.test_series_beyond_the_limit_are_counted_and_not_kept: ("headrace_client_telemetry_dropped_total",),
}


def test_every_metric_has_a_proof() -> None:
    proven = [name for names in PROOFS.values() for name in names]

    assert sorted(proven) == sorted(family.name for family in all_families())


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.__name__)
def test_a_proof_speaks_of_the_metrics_that_it_proves(proof: Callable[..., None]) -> None:
    source = inspect.getsource(proof)

    assert not [name for name in PROOFS[proof] if f'"{name}"' not in source]
