"""What `deploy/` holds is taken by the programs it is for, as far as they are here, and names only settings that exist."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.cli.node.settings import collect, unknown_variables
from headrace.model.broker_settings import BrokerConfig
from headrace.model.listeners import read_listeners
from tests.support.pages import ROOT

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "headrace.service"
CONTAINER = DEPLOY / "container"
CHART = DEPLOY / "kubernetes" / "chart"
EXPOSURE_MAX = 15  # tenths: systemd calls 1.5 "OK"
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/headrace/bin/headrace", "/bin/true"))

    checked = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@needs_systemd
def test_systemd_rates_the_unit_as_hardened() -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(UNIT)]

    rated = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert rated.returncode == 0, rated.stdout[-500:]


def test_the_settings_of_the_unit_are_settings() -> None:
    config = BrokerConfig(collect(DEPLOY / "systemd" / "headrace.toml", {}, {}))

    assert config["headrace.health.listener"] == "127.0.0.1:9404"


def variables_of_the_image() -> dict[str, str]:
    found = re.findall(r"(HEADRACE_[A-Z_]+)=(\S+)", (CONTAINER / "Containerfile").read_text())
    assert found
    return dict(found)


def test_the_image_starts_with_settings_that_do_not_contradict_each_other() -> None:
    variables = variables_of_the_image()

    assert unknown_variables(variables) == []
    listeners = read_listeners(BrokerConfig(collect(None, variables, {})))
    assert [(each.name, each.advertised.port) for each in listeners.each] == [("INSIDE", 19092), ("OUTSIDE", 9092)]


@pytest.mark.parametrize(("file", "brokers"), [("compose.yaml", 1), ("compose.cluster.yaml", 3)])
def test_each_broker_of_a_compose_file_has_its_own_number_port_and_volume(file: str, brokers: int) -> None:
    services = yaml.safe_load((CONTAINER / file).read_text())["services"]
    found = {name: service for name, service in services.items() if name.startswith("headrace")}

    assert len(found) == brokers
    for what in ("hostname", "ports", "volumes"):
        assert len({str(service[what]) for service in found.values()}) == brokers
    for service in found.values():
        environment = {**variables_of_the_image(), **service.get("environment", {})}
        assert unknown_variables(environment) == []
        advertised = {each.name: each for each in read_listeners(BrokerConfig(collect(None, environment, {}))).each}["OUTSIDE"]
        assert service["ports"] == [f"127.0.0.1:{advertised.advertised.port}:9092"]


def test_the_chart_names_only_settings_that_exist() -> None:
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    variables = dict.fromkeys(re.findall(r"HEADRACE_[A-Z_]+[A-Z](?==|:)", text), "")

    assert len(variables) > 10
    assert unknown_variables(variables) == []


HELM = os.environ.get("HEADRACE_TEST_HELM", "helm")
VARIANTS = {
    "defaults": [],
    "all": [
        "external.enabled=true",
        "tls.secretName=certificates",
        "secretSettings.secretName=passwords",
        "serviceMonitor.enabled=true",
        "racks={a,b,c}",
    ],
    "balanced": ["external.enabled=true", "external.type=LoadBalancer", "external.host=b%d.example", "external.firstPort=9092"],
}


def rendered(variant: str) -> list[dict[str, Any]]:
    values = [argument for value in VARIANTS[variant] for argument in ("--set", value)]
    printed = subprocess.run([HELM, "template", "log", CHART, *values], check=True, capture_output=True, text=True, timeout=60)
    return [document for document in yaml.safe_load_all(printed.stdout) if document]


@pytest.mark.skipif(shutil.which(HELM) is None, reason="`make charts` runs this")
@pytest.mark.parametrize("variant", VARIANTS)
def test_kubernetes_takes_what_the_chart_renders(variant: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")

    documents = rendered(variant)

    assert {str(document["kind"]) for document in documents} >= {"StatefulSet", "Service", "ConfigMap", "PodDisruptionBudget"}
    for document in documents:
        if document["kind"] != "ServiceMonitor":
            kubernetes_validate.validate(document, "1.30", strict=True)


@pytest.mark.skipif(shutil.which(HELM) is None, reason="`make charts` runs this")
@pytest.mark.parametrize(
    ("variant", "external", "rack"),
    [
        ("defaults", None, "zone-b"),
        ("all", "EXTERNAL://kafka.example.com:31094", "c"),
        ("balanced", "EXTERNAL://b2.example:9092", "zone-b"),
    ],
)
def test_a_pod_starts_a_broker_with_its_own_number_addresses_and_rack(
    tmp_path: Path, variant: str, external: str | None, rack: str
) -> None:
    maps = {document["metadata"]["name"]: document["data"] for document in rendered(variant) if document["kind"] == "ConfigMap"}
    (tmp_path / "headrace").write_text("#!/bin/sh\nenv | grep ^HEADRACE_\n")
    (tmp_path / "headrace").chmod(0o755)
    inside = {"PATH": f"{tmp_path}:/bin:/usr/bin", "HOSTNAME": "log-2", "NAMESPACE": "prod", "ZONE": "zone-b"}

    started = subprocess.run(
        ["sh", "-c", maps["log"]["start.sh"]],
        env={**maps["log-environment"], **inside},
        capture_output=True,
        text=True,
        check=True,
    )

    environment = dict(line.split("=", 1) for line in started.stdout.splitlines())
    config = BrokerConfig(collect(None, environment, {}))
    assert (config["node.id"], config["broker.rack"]) == (3, rack)
    assert unknown_variables(environment) == []
    told = {each.name: f"{each.name}://{each.advertised}" for each in read_listeners(config).each}
    assert told["CLIENT"] == "CLIENT://log-2.log-brokers.prod.svc:9092"
    assert told["BROKER"] == "BROKER://log-2.log-brokers.prod.svc:9093"
    assert told.get("EXTERNAL") == external
