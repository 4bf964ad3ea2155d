"""`headrace pipeline`: run a Spark pipeline here, hand it to a cluster, and see how the known ones are doing.

Spark is imported inside the functions: the help does not pay for it, and without it a sentence says how to get it.
"""

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.connection import AsJson, key_values
from headrace.cli.failure import Failure
from headrace.cli.output import remark, show_json, show_table
from headrace.cli.pipeline.display import COLUMNS, Display, query_cells, short_moment
from headrace.cli.pipeline.submit import run_until_done, spark_environment, submit_command
from headrace.cli.way import choose_pipeline_address, chosen_profile

if TYPE_CHECKING:
    from headrace.spark.pipeline.file import PipelineFile

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Spark pipelines: run, submit, and see how they do.")

File = Annotated[str, typer.Argument(metavar="FILE", help="A pipeline's TOML file, or the name of a ready one.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="SECTION.KEY=VALUE", help="Change a value of the file, such as source.subscribe=orders."),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="HEADRACE_BOOTSTRAP",
        metavar="HOST:PORT",
        help="The broker, instead of the file's.",
        callback=choose_pipeline_address,
    ),
]


@app.command()
def run(
    file: File,
    settings: Settings = None,
    bootstrap: Brokers = None,
    master: Annotated[str, typer.Option("--master", help="Where Spark runs: all cores of this machine by default.")] = "local[*]",
    metrics_port: Annotated[int | None, typer.Option("--metrics-port", help="Serve Prometheus metrics on this port.")] = None,
) -> None:
    """Run a pipeline on this machine, with its progress, until it ends or Ctrl-C stops it; the next run goes on from there.

    [bold]headrace pipeline run windowed-statistics -s source.subscribe=orders[/bold]
    [bold]headrace pipeline run archive -s sinks.files.path=/data/archive -s trigger.every="5 minutes"[/bold]
    [bold]headrace pipeline run audit -s source.subscribe=orders[/bold] (exit code 3 when it finds something)
    """
    pipeline = _load(file, settings, bootstrap)
    from headrace.spark.pipeline.job import FINDINGS_EXIT_CODE, run_pipeline

    with Display(pipeline.name) as display:
        findings = run_pipeline(pipeline, master=master, show=display.show, say=display.say, metrics_port=metrics_port)
    raise typer.Exit(FINDINGS_EXIT_CODE if findings else 0)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def submit(
    context: typer.Context,
    file: File,
    master: Annotated[str, typer.Option("--master", help="The cluster, such as spark://host:7077, yarn or k8s://…")],
    settings: Settings = None,
    bootstrap: Brokers = None,
) -> None:
    """Hand a pipeline to a Spark cluster by spark-submit; what follows [bold]--[/bold] goes to spark-submit as it is.

    The cluster's Python needs the package: install it on its machines, or pass --py-files.
    [bold]headrace pipeline submit archive --master spark://host:7077 -- --executor-memory 4g[/bold]
    """
    pipeline = _load(file, settings, bootstrap)
    command = submit_command(pipeline, master, settings or [], bootstrap, chosen_profile(), context.args)
    raise typer.Exit(run_until_done(command, spark_environment(), pipeline.name))


@app.command("list")
def list_pipelines(as_json: AsJson = False) -> None:
    """List the ready pipelines and those that have run on this machine."""
    _require_spark()
    from headrace.spark.pipeline.catalog import ready_pipelines
    from headrace.spark.pipeline.file import load_pipeline_file
    from headrace.spark.pipeline.state import known_pipelines

    known = known_pipelines()
    rows = []
    for name, path in ready_pipelines().items():
        state = known.get(name)
        rows.append((name, state.shown if state else "-", load_pipeline_file(path).description, str(path)))
    rows += [(name, state.shown, state.description, state.file) for name, state in known.items() if name not in ready_pipelines()]
    if as_json:
        show_json([dict(zip(("name", "state", "description", "file"), row, strict=True)) for row in rows])
    else:
        show_table(("name", "state", "what it does"), [(name, state, text or file) for name, state, text, file in rows])


@app.command()
def status(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One pipeline; without it, all that have run here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how pipelines that run or ran on this machine are doing: rows, rate, lag, watermark, and why one failed."""
    _require_spark()
    from dataclasses import asdict

    from headrace.spark.pipeline.state import known_pipelines

    known = known_pipelines()
    if name is not None and name not in known:
        raise Failure(f"pipeline '{name}' has not run on this machine; known are {', '.join(known) or 'none'}")
    chosen = [known[name]] if name is not None else list(known.values())
    if as_json:
        show_json([asdict(state) | {"state": state.shown} for state in chosen])
        return
    if not chosen:
        remark("no pipeline has run on this machine yet; headrace pipeline list names those that are ready")
    for state in chosen:
        times = f"since {short_moment(state.started_at)}, seen {short_moment(state.updated_at)} UTC"
        title = f"{state.name}: {state.shown}, on {state.master}, {times}"
        if state.queries:
            show_table(COLUMNS, [query_cells(state.name, query) for query in state.queries], title=title)
        else:
            print(title if state.shown == "done" else f"{title}; no batch yet")
        if state.error:
            remark(f"{state.name}: {state.error}")


def _load(file: str, settings: list[str] | None, bootstrap: str | None) -> "PipelineFile":
    _require_spark()
    from headrace.spark.pipeline.catalog import find_pipeline
    from headrace.spark.pipeline.file import load_pipeline_file

    changed = key_values(settings, "--set")
    if (secret := _secret(changed)) is not None:
        raise typer.BadParameter(f"{secret} is a secret, and everybody on this machine can read arguments; use a profile.")
    pipeline = load_pipeline_file(find_pipeline(file), changed, bootstrap, chosen_profile())
    if _secret(name for options in (pipeline.source, *(sink.options for sink in pipeline.sinks)) for name in options) is not None:
        from headrace.client.security.secret_files import require_private

        require_private(pipeline.path, "the pipeline")
    return pipeline


def _secret(names: Iterable[str]) -> str | None:
    """The first of these options that is a secret, not a file with one."""
    from headrace.client.security.profiles import SECRETS, is_secret_property

    return next(
        (
            name
            for name in names
            if not name.endswith("_file") and (is_secret_property(name) or name.rpartition(".")[2] in SECRETS)
        ),
        None,
    )


def _require_spark() -> None:
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        raise Failure(f"{' and '.join(missing)} is not installed: pip install 'headrace[spark]'")
