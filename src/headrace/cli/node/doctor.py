"""`headrace doctor`: look at this machine and at the way to the cluster, and say what to do."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, connection_settings
from headrace.cli.node.settings import collect, unknown_variables
from headrace.cli.output import show_json, show_table
from headrace.model.broker_settings import BrokerConfig

if TYPE_CHECKING:
    from headrace.cli.node.checks import Finding

CONTACT_S = 3.0


def doctor(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="The data directory to look at; ./data if not given.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE.toml", help="The broker's settings file.")] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Check this machine and the way to the cluster, and advise.

    Looks at Python, Java and Spark, limits, the clock, the disk and its flushes, ports, and at every broker that the cluster
    advertises, as clients would reach it from here. Exits with 1 if there is a problem; warnings alone exit with 0.

    Examples:

      headrace doctor                              # before the first `headrace serve`

      headrace doctor --bootstrap 127.0.0.1:9092   # on a client's machine
    """
    from headrace.cli.node.checks import Verdict, look_at_machine, warning

    flags = {} if data is None else {"log.dirs": str(data)}
    settings = BrokerConfig(collect(config, os.environ, flags))
    findings = list(look_at_machine(settings))
    findings += [warning("Environment", line, "Correct or unset it.") for line in unknown_variables(os.environ)]
    findings += look_at_cluster(bootstrap)
    if as_json:
        show_json([finding._asdict() for finding in findings])
    else:
        _show(findings)
    if any(finding.verdict is Verdict.PROBLEM for finding in findings):
        raise typer.Exit(1)


def _show(findings: "list[Finding]") -> None:
    show_table(("", "", "found"), [(finding.verdict, finding.about, finding.found) for finding in findings])
    advised = [finding for finding in findings if finding.advice]
    for finding in advised:
        print(f"{finding.about}: {finding.advice}")
    if not advised:
        print("Nothing stands in the way.")


def look_at_cluster(bootstrap: str) -> "Iterator[Finding]":
    """Whether a broker answers, and whether each that it names can be reached from here."""
    from headrace.cli.node.checks import ok, problem, warning
    from headrace.client.admin.admin import Admin
    from headrace.client.contact import look_for_broker
    from headrace.client.errors import HeadraceError

    properties = connection_settings()
    found = look_for_broker(bootstrap.split(","), properties, CONTACT_S)
    if found.refusal is not None:
        yield problem("Cluster", str(found.refusal), "Use --profile, or correct it; see docs/security.md.")
        return
    if not found.is_there:
        reasons = ", ".join(f"{address} ({reason})" for address, reason in found.why.items())
        yield warning(
            "Cluster", f"no broker answers at {reasons}", "Start one with `headrace serve`, or name another with --bootstrap."
        )
        return
    try:
        with Admin(bootstrap, librdkafka=properties, timeout=10, connect_timeout=10) as admin:
            cluster = admin.cluster()
    except HeadraceError as error:
        yield problem("Cluster", str(error), "See docs/operating.md.")
        return
    yield ok("Cluster", f"{cluster.id} with {len(cluster.brokers)} brokers, reached at {bootstrap}")
    for broker in cluster.brokers:
        address = f"{broker.host}:{broker.port}"
        reached = look_for_broker([address], properties, CONTACT_S)
        if reached.is_there:
            yield ok(f"Broker {broker.id}", f"reached at {address}")
        else:
            why = reached.why.get(address) or str(reached.refusal)
            advice = "Clients on this machine cannot use it: set advertised.listeners to an address that they can reach."
            yield problem(f"Broker {broker.id}", f"advertised as {address}: {why}", advice)
