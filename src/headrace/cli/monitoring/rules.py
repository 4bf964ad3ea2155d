"""The alerts: what is asked of Prometheus, for how long it must be so, and what a person is told.

Each has a section of its name in the runbook (`runbook.py`), and cases in tests/unit/cli/monitoring that make it fire and clear.
Series of one cluster carry its name in the label `cluster`, which the scrape configuration gives them.
"""

from dataclasses import dataclass
from typing import Any, Literal

RUNBOOK = "runbook.md"
BROKERS_JOB, DETAILS_JOB, PIPELINES_JOB, GATEWAYS_JOB = "headrace", "headrace-detail", "headrace-pipelines", "headrace-gateways"
# What a producer's client mends by itself: its knowledge of who leads was old.
ROUTINE_ERRORS = "NOT_LEADER_OR_FOLLOWER|FENCED_LEADER_EPOCH"
DEAD_LETTERS = 'headrace_partition_end_offset{topic=~".+\\\\.dead-letter"}'
DEAD_LETTERS_NOW = f"max by (cluster, topic, partition) ({DEAD_LETTERS})"
GIVEN_UP = "headrace_share_group_dead_records_total"
GIVEN_UP_NOW = f"sum by (cluster, group, topic) ({GIVEN_UP})"
GIVEN_UP_BEFORE = f"sum by (cluster, group, topic) ({GIVEN_UP} offset 15m)"
DEAD_LETTERS_BEFORE = f"max by (cluster, topic, partition) ({DEAD_LETTERS} offset 15m)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One rule."""

    name: str
    expression: str
    lasting: str  # for how long it holds before somebody is told; 0s: at once
    severity: Literal["critical", "warning"]
    summary: str
    description: str

    def to_values(self, runbook: str) -> dict[str, Any]:
        """As Prometheus' file of rules has it."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{runbook}#{self.name.lower()}",
            },
        }


BROKERS = (
    Alert(
        name="HeadraceBrokerDown",
        expression=f'up{{job="{BROKERS_JOB}"}} == 0',
        lasting="1m",
        severity="critical",
        summary="Broker {{ $labels.instance }} does not answer.",
        description="Prometheus could not read the metrics of {{ $labels.instance }} for a minute.",
    ),
    Alert(
        name="HeadraceNoController",
        expression="max by (cluster) (headrace_controller) == 0",
        lasting="1m",
        severity="critical",
        summary="Cluster {{ $labels.cluster }} has no controller.",
        description="No broker holds the office: leaders are not elected, and topics cannot be changed.",
    ),
    Alert(
        name="HeadracePartitionsLeaderless",
        expression="max by (cluster) (headrace_controller_partitions_leaderless) > 0",
        lasting="1m",
        severity="critical",
        summary="{{ $value | humanize }} partitions of {{ $labels.cluster }} have no leader.",
        description="They can be neither written nor read until one of their replicas is back.",
    ),
    Alert(
        name="HeadraceEventLoopLate",
        expression="histogram_quantile(0.99, sum by (cluster, instance, le) "
        "(rate(headrace_loop_delay_seconds_bucket[5m]))) > 0.1",
        lasting="5m",
        severity="warning",
        summary="The event loop of {{ $labels.instance }} is late by {{ $value | humanizeDuration }}.",
        description="One in a hundred calls waited for longer than 100 ms; so does every request that comes at that moment.",
    ),
    Alert(
        name="HeadraceCertificateExpires",
        expression="headrace_certificate_expiry_seconds - time() < 14 * 86400",
        lasting="1h",
        severity="warning",
        summary="The certificate of {{ $labels.listener }} at {{ $labels.instance }} expires in {{ $value | humanizeDuration }}.",
        description="From then on clients refuse to connect.",
    ),
    Alert(
        name="HeadraceMetadataStoreFails",
        expression="sum by (cluster, instance) (rate(headrace_metadata_failures_total[5m])) > 0.1",
        lasting="5m",
        severity="warning",
        summary="{{ $labels.instance }} does not reach the store of the metadata.",
        description="Requests to etcd fail. A broker that cannot renew its lease stops leading.",
    ),
)

REPLICATION = (
    Alert(
        name="HeadraceInSyncSetShrunk",
        expression="sum by (cluster, instance) (headrace_partitions_under_replicated) > 0",
        lasting="5m",
        severity="warning",
        summary="{{ $value | humanize }} partitions that {{ $labels.instance }} leads lack a replica in sync.",
        description="What they hold would not survive as many failures as their replication factor promises.",
    ),
    Alert(
        name="HeadraceUnderMinimumInSync",
        expression="sum by (cluster, instance) (headrace_partitions_under_minimum) > 0",
        lasting="1m",
        severity="critical",
        summary="{{ $value | humanize }} partitions that {{ $labels.instance }} leads refuse writes with acks=all.",
        description="Fewer of their replicas are in sync than min.insync.replicas asks for.",
    ),
    Alert(
        name="HeadraceReplicationLags",
        expression="max by (cluster, instance, follower) (headrace_replication_lag_seconds) > 10",
        lasting="2m",
        severity="warning",
        summary="Broker {{ $labels.follower }} is {{ $value | humanizeDuration }} behind {{ $labels.instance }}.",
        description="A follower does not keep up. After replica.lag.time.max.ms it leaves the in-sync sets.",
    ),
    Alert(
        name="HeadraceUncleanElection",
        expression="max by (cluster) (increase(headrace_cluster_unclean_elections_total[1h])) > 0",
        lasting="0s",
        severity="critical",
        summary="A partition of {{ $labels.cluster }} was given to a replica that may lack records.",
        description="Records that were acknowledged may be lost.",
    ),
    Alert(
        name="HeadracePartitionsOffline",
        expression="sum by (cluster, instance) (headrace_partitions_offline) > 0",
        lasting="0s",
        severity="critical",
        summary="{{ $value | humanize }} replicas on {{ $labels.instance }} are offline.",
        description="Their disk failed when they were written to or read.",
    ),
)

DISK = (
    Alert(
        name="HeadraceFlushesSlow",
        expression="histogram_quantile(0.99, sum by (cluster, instance, le) (rate(headrace_flush_seconds_bucket[5m]))) > 0.5",
        lasting="5m",
        severity="warning",
        summary="Flushes of {{ $labels.instance }} take {{ $value | humanizeDuration }} (p99).",
        description="Every producer that waits for this broker's disk waits that long.",
    ),
    Alert(
        name="HeadraceDiskFills",
        expression="predict_linear(headrace_disk_writable_bytes[6h], 24 * 3600) < 0 "
        "and headrace_disk_writable_bytes < 0.5 * headrace_disk_size_bytes",
        lasting="30m",
        severity="warning",
        summary="The disk of {{ $labels.instance }} will be full within a day.",
        description="At the pace of the last six hours. Writes are refused when it is.",
    ),
    Alert(
        name="HeadraceDiskAlmostFull",
        expression="headrace_disk_writable_bytes < 0.1 * headrace_disk_size_bytes",
        lasting="5m",
        severity="critical",
        summary="The disk of {{ $labels.instance }} has {{ $value | humanize1024 }}B left.",
        description="Less than a tenth of it may still be written. Writes are refused when nothing is left.",
    ),
)

CLIENTS = (
    Alert(
        name="HeadraceProducersFail",
        expression=f'sum by (cluster) (rate(headrace_append_failures_total{{error!~"{ROUTINE_ERRORS}"}}[5m]))'
        f' / (sum by (cluster) (rate(headrace_append_failures_total{{error!~"{ROUTINE_ERRORS}"}}[5m]))'
        " + sum by (cluster) (rate(headrace_batch_records_count[5m]))) > 0.001",
        lasting="5m",
        severity="critical",
        summary="{{ $value | humanizePercentage }} of the batches sent to {{ $labels.cluster }} are refused.",
        description="More than one batch of a thousand was refused, or not confirmed in time.",
    ),
    Alert(
        name="HeadraceConsumerLagRecords",
        expression="sum by (cluster, group, topic) (headrace_group_lag_records) > 100000",
        lasting="5m",
        severity="warning",
        summary="Group {{ $labels.group }} is {{ $value | humanize }} records behind in {{ $labels.topic }}.",
        description="Its members are too slow, too few, stuck, or not running.",
    ),
    Alert(
        name="HeadraceConsumerLagSeconds",
        expression="max by (cluster, group, topic) (headrace_group_lag_seconds) > 60",
        lasting="5m",
        severity="warning",
        summary="Group {{ $labels.group }} is {{ $value | humanizeDuration }} behind in {{ $labels.topic }}.",
        description="The first record that it has not committed is that old.",
    ),
    Alert(
        name="HeadraceDeadLettersGrow",
        # Offsets, since counters begin anew with each broker; a topic that was not there before had none.
        expression=f"sum by (cluster, topic) ({DEAD_LETTERS_NOW} - ({DEAD_LETTERS_BEFORE} or {DEAD_LETTERS_NOW} * 0)) > 0",
        lasting="0s",
        severity="warning",
        summary="{{ $value | humanize }} records went to {{ $labels.topic }} within 15 minutes.",
        description="Somebody could not handle them, and set them aside.",
    ),
    Alert(
        name="HeadraceQueueRecordsGivenUp",
        # As above: the first that is given up makes the series.
        expression=f"{GIVEN_UP_NOW} - ({GIVEN_UP_BEFORE} or {GIVEN_UP_NOW} * 0) > 0",
        lasting="0s",
        severity="warning",
        summary="Share group {{ $labels.group }} gave up {{ $value | humanize }} records of {{ $labels.topic }}.",
        description="Within 15 minutes they were rejected, or delivered as often as they may be.",
    ),
    Alert(
        name="HeadraceQueueBehind",
        expression="max by (cluster, group, topic) (headrace_share_group_oldest_seconds) > 300",
        lasting="5m",
        severity="warning",
        summary="Share group {{ $labels.group }} is {{ $value | humanizeDuration }} behind in {{ $labels.topic }}.",
        description="The first record that it has not done is that old.",
    ),
    Alert(
        name="HeadraceDelayedRecordsLate",
        expression="max by (cluster, instance) (headrace_delayed_overdue_seconds) > 10",
        lasting="1m",
        severity="warning",
        summary="Delayed records that {{ $labels.instance }} holds are late by {{ $value | humanizeDuration }}.",
        description="Their time has come, and they were not delivered to their topic.",
    ),
    Alert(
        name="HeadraceUploadsBehind",
        expression="max by (cluster, instance) (headrace_remote_pending_seconds) > 900",
        lasting="5m",
        severity="warning",
        summary="Segments on {{ $labels.instance }} have waited for the object store for {{ $value | humanizeDuration }}.",
        description="They stay on the disk until they are uploaded, however long their topic wants them there.",
    ),
    Alert(
        name="HeadracePipelineBehind",
        expression="max by (cluster, query) (headrace_query_lag_records) > 100000",
        lasting="5m",
        severity="warning",
        summary="Query {{ $labels.query }} is {{ $value | humanize }} records behind.",
        description="It reads more slowly than its topics are written.",
    ),
)

GROUPS = {"brokers": BROKERS, "replication": REPLICATION, "disk": DISK, "clients": CLIENTS}


def rules_file(runbook: str = RUNBOOK) -> dict[str, Any]:
    """All of them, as Prometheus reads them."""
    return {
        "groups": [
            {"name": f"headrace-{name}", "rules": [alert.to_values(runbook) for alert in alerts]}
            for name, alerts in GROUPS.items()
        ]
    }
