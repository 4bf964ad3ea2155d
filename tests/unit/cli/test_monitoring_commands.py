"""`headrace monitoring write`: files that Prometheus and Alertmanager accept, dashboards that hold together, a runbook."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
import yaml

from headrace.cli.main import app
from headrace.cli.monitoring.dashboards import DASHBOARDS
from headrace.cli.monitoring.files import monitoring_files
from headrace.cli.monitoring.runbook import TEXTS, runbook_page
from headrace.cli.monitoring.yaml_text import yaml_text
from headrace.gateway import metrics as gateway_metrics
from headrace.metrics.families import Family, Kind
from headrace.spark import query_metrics
from tests.support.metrics import all_families
from tests.support.prometheus import accepts, all_alerts
from tests.unit.cli.conftest import Outcome

Command = Callable[..., Outcome]
NAMES = re.compile(r"\b(?:headrace|process|python)_\w+")


@pytest.fixture
def written(headrace: Command, tmp_path: Path) -> Path:
    words = ("--broker", "host-1:9404", "--broker", "host-2:9404", "--pipeline", "host-3:9405", "--cluster", "main")
    outcome = headrace("monitoring", "write", str(tmp_path / "m"), *words)

    assert outcome.code == 0, outcome.remarks
    return tmp_path / "m"


def test_prometheus_and_alertmanager_accept_what_is_written(written: Path) -> None:
    accepts("promtool", "check", "config", written / "prometheus.yml")
    accepts("amtool", "check-config", written / "alertmanager.yml")


def test_brokers_and_pipelines_are_scraped_where_they_were_said_to_be(written: Path) -> None:
    jobs = yaml.safe_load((written / "prometheus.yml").read_text())["scrape_configs"]

    assert [(job["job_name"], job.get("metrics_path"), *job["static_configs"]) for job in jobs] == [
        ("headrace", "/metrics", {"targets": ["host-1:9404", "host-2:9404"], "labels": {"cluster": "main"}}),
        ("headrace-detail", "/metrics/detail", {"targets": ["host-1:9404", "host-2:9404"], "labels": {"cluster": "main"}}),
        ("headrace-pipelines", None, {"targets": ["host-3:9405"], "labels": {"cluster": "main"}}),
    ]


def test_what_was_changed_is_not_written_over_unless_forced(headrace: Command, tmp_path: Path) -> None:
    assert headrace("monitoring", "write", str(tmp_path)).code == 0
    assert headrace("monitoring", "write", str(tmp_path)).code == 0
    rules = tmp_path / "rules/headrace.yml"
    rules.write_text("groups: []\n")

    refused = headrace("monitoring", "write", str(tmp_path))
    assert refused.code == 1
    assert "already has a different rules/headrace.yml. Pass --force" in refused.remarks
    assert rules.read_text() == "groups: []\n"
    assert headrace("monitoring", "write", str(tmp_path), "--force").code == 0
    assert "HeadraceBrokerDown" in rules.read_text()


def test_an_address_is_a_host_and_a_port(headrace: Command, tmp_path: Path) -> None:
    refused = headrace("monitoring", "write", str(tmp_path), "--broker", "host-1")

    assert refused.code == 2
    assert "--broker wants HOST:PORT" in refused.remarks


def test_links_lead_to_where_people_read_the_runbook(headrace: Command, tmp_path: Path) -> None:
    headrace("monitoring", "write", str(tmp_path), "--runbook", "https://wiki/runbook")

    assert "https://wiki/runbook#headracebrokerdown" in (tmp_path / "rules/headrace.yml").read_text()


def known_names() -> set[str]:
    found: set[str] = set()
    families: list[Family] = [*all_families(), *query_metrics.FAMILIES, *gateway_metrics.FAMILIES]
    for family in families:
        parts = ("_bucket", "_count", "_sum") if family.kind is Kind.HISTOGRAM else ("",)
        found |= {family.name + part for part in parts}
    return found


def test_alerts_and_panels_ask_for_metrics_that_there_are() -> None:
    asked = [alert.expression for alert in all_alerts()]
    asked += [query.expression for dashboard in DASHBOARDS for panel in dashboard.panels for query in panel.queries]
    asked += [variable.metric for dashboard in DASHBOARDS for variable in dashboard.variables]

    assert {name for expression in asked for name in NAMES.findall(expression)} - known_names() == set()


def test_every_alert_has_a_section_in_the_runbook_and_every_section_an_alert() -> None:
    page, names = runbook_page(), [alert.name for alert in all_alerts()]

    assert re.findall(r"^### (\w+)$", page, re.MULTILINE) == names
    assert sorted(TEXTS) == sorted(names)
    assert set(re.findall(r"\bHeadrace[A-Z]\w+", page)) <= set(names)
    assert set(NAMES.findall(page)) - known_names() - {family.name for family in all_families()} == set()


def test_the_runbook_names_commands_that_there_are() -> None:
    root: Any = typer.main.get_command(app)
    context = typer.Context(root, info_name="headrace")
    for words in re.findall(r"`headrace ([a-z-]+) ([a-z-]+)", runbook_page()):
        command = root.get_command(context, words[0])
        assert command is not None, words
        assert words[1] in command.commands, words


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_the_panels_of_a_dashboard_lie_side_by_side_and_are_explained(dashboard: Any) -> None:
    values = json.loads(json.dumps(dashboard.to_values()))
    panels = values["panels"]
    taken = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["description"].endswith(".") and panel["targets"] for panel in panels if panel["type"] != "row")
    chosen = {variable["name"] for variable in values["templating"]["list"]} | {"__rate_interval"}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) <= chosen


def test_there_is_a_dashboard_for_everything_and_grafana_finds_it(written: Path) -> None:
    found = [json.loads(path.read_text()) for path in sorted((written / "grafana/dashboards").iterdir())]

    assert [each["uid"] for each in found] == [
        f"headrace-{name}" for name in ("cluster", "gateways", "groups", "pipelines", "queues", "topics")
    ]
    assert yaml.safe_load((written / "grafana/provisioning/dashboards/headrace.yml").read_text())["apiVersion"] == 1
    assert yaml.safe_load((written / "grafana/provisioning/datasources/headrace.yml").read_text())["datasources"]


@pytest.mark.parametrize(
    "value",
    [
        "plain words",
        'it\'s "so" \\ {{ $labels.x }}: #1',
        "yes",
        "15s",
        "1:30",
        "0x10",
        "line\nbreak\ttab",
        " spaces ",
        "",
        "*",
        "[a]",
        3,
        1.5,
        True,
        [],
        {},
        ["a", {"b": ["c", ["d"]], "e": {"f": "g"}}],
    ],
)
def test_yaml_is_read_as_what_was_written(value: Any) -> None:
    document = {"name": value, "more": [value, {"inner": value}]}

    assert yaml.safe_load(yaml_text(document)) == document


def test_all_files_are_what_their_endings_say() -> None:
    for name, text in monitoring_files(["h:1"]).items():
        assert isinstance(
            json.loads(text) if name.endswith(".json") else yaml.safe_load(text) if name.endswith(".yml") else {}, dict
        )
