"""The files of `headrace monitoring write`, by their paths: what Prometheus, Alertmanager and Grafana read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.cli.monitoring.dashboards import DASHBOARDS
from headrace.cli.monitoring.rules import BROKERS_JOB, DETAILS_JOB, GATEWAYS_JOB, PIPELINES_JOB, RUNBOOK, rules_file
from headrace.cli.monitoring.runbook import runbook_page
from headrace.cli.monitoring.yaml_text import yaml_text

INTERVAL, DETAIL_INTERVAL = "15s", "60s"
ALERTMANAGER = "127.0.0.1:9093"
PROMETHEUS_URL = "http://127.0.0.1:9090"


def monitoring_files(
    brokers: Sequence[str],
    pipelines: Sequence[str] = (),
    cluster: str = "headrace",
    runbook: str | None = None,
    gateways: Sequence[str] = (),
) -> Mapping[str, str]:
    """All of them."""
    dashboards = {f"grafana/dashboards/headrace-{each.name}.json": _json(each.to_values()) for each in DASHBOARDS}
    return {
        "prometheus.yml": _prometheus(brokers, pipelines, gateways, cluster),
        "rules/headrace.yml": yaml_text(rules_file(runbook or RUNBOOK)),
        "alertmanager.yml": _alertmanager(),
        **dashboards,
        "grafana/provisioning/dashboards/headrace.yml": _dashboard_provider(),
        "grafana/provisioning/datasources/headrace.yml": _data_source(),
        "runbook.md": runbook_page(),
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _prometheus(brokers: Sequence[str], pipelines: Sequence[str], gateways: Sequence[str], cluster: str) -> str:
    def job(name: str, targets: Sequence[str], **more: str) -> dict[str, Any]:
        return {"job_name": name, **more, "static_configs": [{"targets": list(targets), "labels": {"cluster": cluster}}]}

    jobs = [
        job(BROKERS_JOB, brokers, metrics_path="/metrics"),
        job(DETAILS_JOB, brokers, metrics_path="/metrics/detail", scrape_interval=DETAIL_INTERVAL),
    ]
    if pipelines:
        jobs.append(job(PIPELINES_JOB, pipelines))
    if gateways:
        jobs.append(job(GATEWAYS_JOB, gateways))
    head = "# Prometheus: the brokers' metrics, the rules, and who is told.  promtool check config prometheus.yml\n"
    return head + yaml_text(
        {
            "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
            "rule_files": ["rules/headrace.yml"],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [ALERTMANAGER]}]}]},
            "scrape_configs": jobs,
        }
    )


def _alertmanager() -> str:
    """Who is told of what.  A broker that is down explains most of the rest, so that the rest is not told then."""
    head = "# Alertmanager: an example. Put in where your people are told, then: amtool check-config alertmanager.yml\n"
    explained = "|".join(
        (
            "HeadraceInSyncSetShrunk",
            "HeadraceReplicationLags",
            "HeadraceUnderMinimumInSync",
            "HeadracePartitionsLeaderless",
            "HeadraceProducersFail",
        )
    )
    return head + yaml_text(
        {
            "route": {
                "receiver": "by-day",
                "group_by": ["alertname", "cluster"],
                "group_wait": "30s",
                "group_interval": "5m",
                "repeat_interval": "4h",
                "routes": [{"matchers": ['severity="critical"'], "receiver": "at-once", "repeat_interval": "1h"}],
            },
            "inhibit_rules": [
                {
                    "source_matchers": ['alertname="HeadraceBrokerDown"'],
                    "target_matchers": [f'alertname=~"{explained}"'],
                    "equal": ["cluster"],
                }
            ],
            "receivers": [
                {"name": "at-once", "webhook_configs": [{"url": "http://127.0.0.1:5001/at-once"}]},
                {"name": "by-day", "webhook_configs": [{"url": "http://127.0.0.1:5001/by-day"}]},
            ],
        }
    )


def _dashboard_provider() -> str:
    return yaml_text(
        {
            "apiVersion": 1,
            "providers": [
                {"name": "headrace", "folder": "Headrace", "type": "file", "options": {"path": "/var/lib/grafana/dashboards"}}
            ],
        }
    )


def _data_source() -> str:
    return yaml_text(
        {"apiVersion": 1, "datasources": [{"name": "Prometheus", "type": "prometheus", "access": "proxy", "url": PROMETHEUS_URL}]}
    )
