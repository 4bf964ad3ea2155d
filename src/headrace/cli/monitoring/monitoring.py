"""`headrace monitoring`: alerts, dashboards and the scrape configuration, as files."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.failure import Failure
from headrace.cli.output import counted, remark

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Files for Prometheus, Alertmanager and Grafana.")


@app.callback()
def monitoring() -> None:
    """Files for Prometheus, Alertmanager and Grafana."""


@app.command(
    epilog="Example: [bold]headrace monitoring write monitoring --broker host-1:9404 --broker host-2:9404[/bold]",
)
def write(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; it is made where there is none.")],
    broker: Annotated[
        list[str] | None,
        typer.Option(
            "--broker", metavar="HOST:PORT", help="Where a broker tells its metrics (headrace.metrics.listener); may be repeated."
        ),
    ] = None,
    pipeline: Annotated[
        list[str] | None,
        typer.Option(
            "--pipeline", metavar="HOST:PORT", help="Where a pipeline tells its metrics (--metrics-port); may be repeated."
        ),
    ] = None,
    gateway: Annotated[
        list[str] | None,
        typer.Option("--gateway", metavar="HOST:PORT", help="Where a gateway tells its metrics (--metrics); may be repeated."),
    ] = None,
    cluster: Annotated[str, typer.Option("--cluster", metavar="NAME", help="The label cluster of all series.")] = "headrace",
    runbook: Annotated[
        str | None,
        typer.Option("--runbook", metavar="URL", help="Where people read the runbook, for the links in alerts."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over files that were changed.")] = False,
) -> None:
    """Write rules and alerts, dashboards, a scrape configuration and the runbook.

    prometheus.yml scrapes the brokers and reads rules/headrace.yml; alertmanager.yml is an example to complete;
    grafana/dashboards has a dashboard each for the cluster, topics, groups, queues, pipelines and gateways; runbook.md says for
    each alert what it means and what to do.  A file that is there and differs is left alone unless --force is given.
    """
    from headrace.cli.monitoring.files import monitoring_files

    targets = [_address(each, "--broker") for each in broker or ["127.0.0.1:9404"]]
    queries = [_address(each, "--pipeline") for each in pipeline or []]
    gateways = [_address(each, "--gateway") for each in gateway or []]
    files = monitoring_files(targets, queries, cluster, runbook, gateways)
    changed = [] if force else [name for name, text in files.items() if _differs(directory / name, text)]
    if changed:
        raise Failure(f"{directory} already has a different {', '.join(changed)}. Pass --force to overwrite.")
    for name, text in files.items():
        _write(directory / name, text)
    remark(f"Wrote {counted(len(files), 'file')} to {directory}. Start with: prometheus --config.file={directory}/prometheus.yml")


def _address(text: str, option: str) -> str:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal()):
        raise typer.BadParameter(f"{option} wants HOST:PORT, not {text!r}.")
    return text


def _differs(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() != text


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror or error}.") from None
