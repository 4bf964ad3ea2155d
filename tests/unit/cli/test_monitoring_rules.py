"""Each alert fires when its trouble lasts, says so in a sentence, and clears: judged by Prometheus' own `promtool test rules`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.monitoring.rules import RUNBOOK, Alert, rules_file
from headrace.cli.monitoring.yaml_text import yaml_text
from tests.support.prometheus import accepts, all_alerts

C, B, DEAD = 'cluster="c"', 'cluster="c",instance="b:1"', 'cluster="c",topic="t.dead-letter",partition="0"'
ALERTS = {alert.name: alert for alert in all_alerts()}


@dataclass(frozen=True)
class Case:
    """Series in promtool's short form, one value a minute; when the alert is silent, fires and has cleared again."""

    series: Mapping[str, str]
    silent: str
    fires: str
    clears: str
    labels: Mapping[str, str]
    summary: str


BROKER = {"cluster": "c", "instance": "b:1"}
LATE = {
    f'headrace_loop_delay_seconds_bucket{{{B},le="0.065536"}}': "0+60x10 600x19 600+60x30",
    f'headrace_loop_delay_seconds_bucket{{{B},le="0.262144"}}': "0+60x60",
    f'headrace_loop_delay_seconds_bucket{{{B},le="+Inf"}}': "0+60x60",
}
SLOW = {
    f'headrace_flush_seconds_bucket{{{B},le="0.262144"}}': "0+60x10 600x19 600+60x30",
    f'headrace_flush_seconds_bucket{{{B},le="1.048576"}}': "0+60x60",
    f'headrace_flush_seconds_bucket{{{B},le="+Inf"}}': "0+60x60",
}
CASES = {
    "HeadraceBrokerDown": Case(
        {f'up{{job="headrace",{B}}}': "1 1 0 0 0 0 1 1"},
        "1m",
        "3m",
        "6m",
        {**BROKER, "job": "headrace"},
        "Broker b:1 does not answer.",
    ),
    "HeadraceNoController": Case(
        {f"headrace_controller{{{B}}}": "1 0 0 0 0", f'headrace_controller{{{C},instance="other"}}': "0 0 0 0 1"},
        "1m",
        "2m",
        "4m",
        {"cluster": "c"},
        "Cluster c has no controller.",
    ),
    "HeadracePartitionsLeaderless": Case(
        {f"headrace_controller_partitions_leaderless{{{B}}}": "0 3 3 3 0"},
        "1m",
        "2m",
        "4m",
        {"cluster": "c"},
        "3 partitions of c have no leader.",
    ),
    "HeadraceEventLoopLate": Case(LATE, "10m", "25m", "45m", BROKER, "The event loop of b:1 is late by 260.2ms."),
    "HeadraceCertificateExpires": Case(
        {f'headrace_certificate_expiry_seconds{{{B},listener="SSL"}}': "864000x179 8640000x60"},
        "30m",
        "2h",
        "210m",
        {**BROKER, "listener": "SSL"},
        "The certificate of SSL at b:1 expires in 9d 22h 0m 0s.",
    ),
    "HeadraceMetadataStoreFails": Case(
        {f'headrace_metadata_failures_total{{{B},operation="get"}}': "0x5 0+30x15 450x20"},
        "5m",
        "15m",
        "35m",
        BROKER,
        "b:1 does not reach the store of the metadata.",
    ),
    "HeadraceInSyncSetShrunk": Case(
        {f"headrace_partitions_under_replicated{{{B}}}": "0x3 2x10 0x5"},
        "6m",
        "10m",
        "15m",
        BROKER,
        "2 partitions that b:1 leads lack a replica in sync.",
    ),
    "HeadraceUnderMinimumInSync": Case(
        {f"headrace_partitions_under_minimum{{{B}}}": "0x3 2x10 0x5"},
        "4m",
        "6m",
        "15m",
        BROKER,
        "2 partitions that b:1 leads refuse writes with acks=all.",
    ),
    "HeadraceReplicationLags": Case(
        {f'headrace_replication_lag_seconds{{{B},follower="2"}}': "0x3 30x10 0x5"},
        "5m",
        "7m",
        "15m",
        {**BROKER, "follower": "2"},
        "Broker 2 is 30s behind b:1.",
    ),
    "HeadraceUncleanElection": Case(
        {f"headrace_cluster_unclean_elections_total{{{B}}}": "3x5 4x100"},
        "5m",
        "8m",
        "70m",
        {"cluster": "c"},
        "A partition of c was given to a replica that may lack records.",
    ),
    "HeadracePartitionsOffline": Case(
        {f"headrace_partitions_offline{{{B}}}": "0x3 1x3 0x3"}, "3m", "4m", "8m", BROKER, "1 replicas on b:1 are offline."
    ),
    "HeadraceFlushesSlow": Case(SLOW, "10m", "25m", "45m", BROKER, "Flushes of b:1 take 1.041s (p99)."),
    "HeadraceDiskFills": Case(
        {
            f"headrace_disk_writable_bytes{{{B}}}": "400000000000-1000000000x120 280000000000x500",
            f"headrace_disk_size_bytes{{{B}}}": "1000000000000x620",
        },
        "10m",
        "90m",
        "10h",
        BROKER,
        "The disk of b:1 will be full within a day.",
    ),
    "HeadraceDiskAlmostFull": Case(
        {f"headrace_disk_writable_bytes{{{B}}}": "200x3 50x10 200x5", f"headrace_disk_size_bytes{{{B}}}": "1000x20"},
        "5m",
        "10m",
        "16m",
        BROKER,
        "The disk of b:1 has 50B left.",
    ),
    "HeadraceProducersFail": Case(
        {
            f'headrace_append_failures_total{{{B},error="NOT_ENOUGH_REPLICAS"}}': "0+1x40 40x20",
            f"headrace_batch_records_count{{{B}}}": "0+100x60",
        },
        "4m",
        "15m",
        "55m",
        {"cluster": "c"},
        "0.9901% of the batches sent to c are refused.",
    ),
    "HeadraceConsumerLagRecords": Case(
        {f'headrace_group_lag_records{{{B},group="g",topic="t",partition="{part}"}}': "60000x20 40000x5" for part in (0, 1)},
        "4m",
        "10m",
        "22m",
        {"cluster": "c", "group": "g", "topic": "t"},
        "Group g is 120k records behind in t.",
    ),
    "HeadraceConsumerLagSeconds": Case(
        {f'headrace_group_lag_seconds{{{B},group="g",topic="t",partition="0"}}': "90x20 60x5"},
        "4m",
        "10m",
        "22m",
        {"cluster": "c", "group": "g", "topic": "t"},
        "Group g is 1m 30s behind in t.",
    ),
    "HeadraceDeadLettersGrow": Case(
        {f'headrace_partition_end_offset{{{DEAD},instance="{each}"}}': "_x5 3x30" for each in ("b:1", "b:2")},
        "4m",
        "8m",
        "25m",
        {"cluster": "c", "topic": "t.dead-letter"},
        "3 records went to t.dead-letter within 15 minutes.",
    ),
    "HeadraceQueueRecordsGivenUp": Case(
        {f'headrace_share_group_dead_records_total{{{B},group="g",topic="t"}}': "_x5 3x30"},
        "4m",
        "8m",
        "25m",
        {"cluster": "c", "group": "g", "topic": "t"},
        "Share group g gave up 3 records of t.",
    ),
    "HeadraceQueueBehind": Case(
        {f'headrace_share_group_oldest_seconds{{{B},group="g",topic="t",partition="0"}}': "400x10 0x5"},
        "4m",
        "8m",
        "13m",
        {"cluster": "c", "group": "g", "topic": "t"},
        "Share group g is 6m 40s behind in t.",
    ),
    "HeadraceUploadsBehind": Case(
        {f"headrace_remote_pending_seconds{{{B}}}": "0x3 1000x20 0x5"},
        "8m",
        "11m",
        "26m",
        BROKER,
        "Segments on b:1 have waited for the object store for 16m 40s.",
    ),
    "HeadraceDelayedRecordsLate": Case(
        {f"headrace_delayed_overdue_seconds{{{B}}}": "0x3 30x10 0x5"},
        "4m",
        "6m",
        "15m",
        BROKER,
        "Delayed records that b:1 holds are late by 30s.",
    ),
    "HeadracePipelineBehind": Case(
        {f'headrace_query_lag_records{{{B},query="q"}}': "200000x10 10x5"},
        "4m",
        "8m",
        "13m",
        {"cluster": "c", "query": "q"},
        "Query q is 200k records behind.",
    ),
}
# What looks like trouble and is none.
NO_TROUBLE = {
    "leaders that moved": (
        "HeadraceProducersFail",
        {
            f'headrace_append_failures_total{{{B},error="NOT_LEADER_OR_FOLLOWER"}}': "0+50x40",
            f'headrace_append_failures_total{{{B},error="MESSAGE_TOO_LARGE"}}': "0x40",
            f"headrace_batch_records_count{{{B}}}": "0+100x40",
        },
        "20m",
    ),
    "dead letters of long ago": (
        "HeadraceDeadLettersGrow",
        {f"headrace_partition_end_offset{{{DEAD}}}": "7x60"},
        "40m",
    ),
    "a broker that was there from the start and lost records before": (
        "HeadraceUncleanElection",
        {f"headrace_cluster_unclean_elections_total{{{B}}}": "_x5 4x60"},
        "20m",
    ),
    "a full day's worth of room": (
        "HeadraceDiskFills",
        {
            f"headrace_disk_writable_bytes{{{B}}}": "400000000000-10000000x300",
            f"headrace_disk_size_bytes{{{B}}}": "1000000000000x300",
        },
        "250m",
    ),
}


def test_every_alert_has_a_case() -> None:
    assert sorted(CASES) == sorted(ALERTS)


@pytest.mark.slow
def test_every_alert_fires_says_what_is_wrong_and_clears(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(yaml_text(rules_file()))
    tests = [promtool_case(ALERTS[name], case) for name, case in CASES.items()]
    tests += [silence(name, series, at) for name, series, at in NO_TROUBLE.values()]
    (tmp_path / "tests.yml").write_text(yaml_text({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests}))

    accepts("promtool", "check", "rules", tmp_path / "rules.yml")
    accepts("promtool", "test", "rules", tmp_path / "tests.yml")


def promtool_case(alert: Alert, case: Case) -> dict[str, Any]:
    told = {
        "exp_labels": {**case.labels, "severity": alert.severity},
        "exp_annotations": {
            "summary": case.summary,
            "description": alert.description.replace("{{ $labels.instance }}", "b:1"),
            "runbook_url": f"{RUNBOOK}#{alert.name.lower()}",
        },
    }
    return {
        "interval": "1m",
        "input_series": listed(case.series),
        "alert_rule_test": [
            {"eval_time": case.silent, "alertname": alert.name, "exp_alerts": []},
            {"eval_time": case.fires, "alertname": alert.name, "exp_alerts": [told]},
            {"eval_time": case.clears, "alertname": alert.name, "exp_alerts": []},
        ],
    }


def silence(name: str, series: Mapping[str, str], at: str) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": listed(series),
        "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": []}],
    }


def listed(series: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in series.items()]


def test_a_rule_that_asks_for_something_else_is_noticed(tmp_path: Path) -> None:
    rules = yaml_text(rules_file()).replace("headrace_partitions_offline) > 0", "headrace_partitions_offline) > 5")
    (tmp_path / "rules.yml").write_text(rules)
    name = "HeadracePartitionsOffline"
    (tmp_path / "tests.yml").write_text(
        yaml_text({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [promtool_case(ALERTS[name], CASES[name])]})
    )

    with pytest.raises(AssertionError, match=name):
        accepts("promtool", "test", "rules", tmp_path / "tests.yml")
