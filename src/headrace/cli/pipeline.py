"""`headrace pipeline`: run a Spark pipeline here, hand it to a cluster, and see how the known ones are doing.

Spark is imported inside the functions: the help does not pay for it, and without it a sentence says how to get it.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import AsJson, key_values
from headrace.cli.failure import Failure
from headrace.cli.output import remark, show_json, show_table

if TYPE_CHECKING:
    from headrace.spark.metrics import QueryFigures
    from headrace.spark.pipeline_file import PipelineFile

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Spark pipelines: run, submit, and see how they do.")

File = Annotated[str, typer.Argument(metavar="FILE", help="A pipeline's TOML file, or the name of a ready one.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="SECTION.KEY=VALUE", help="Change a value of the file, such as source.subscribe=orders."),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", "-b", envvar="HEADRACE_BOOTSTRAP", metavar="HOST:PORT", help="The broker, instead of the file's."
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
    from headrace.spark.pipeline_job import FINDINGS_EXIT_CODE, run_pipeline

    with _Display(pipeline.name) as display:
        code = run_pipeline(pipeline, master=master, show=display.show, metrics_port=metrics_port)
    if code == FINDINGS_EXIT_CODE:
        where = next((sink.path for sink in pipeline.sinks if sink.path), "")
        remark(f"{pipeline.name} found something; see {where}/report.md")
    raise typer.Exit(code)


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
    command = submit_command(pipeline, master, settings or [], bootstrap, context.args)
    raise typer.Exit(subprocess.run(command, env=_spark_environment(), check=False).returncode)


@app.command("list")
def list_pipelines(as_json: AsJson = False) -> None:
    """List the ready pipelines and those that have run on this machine."""
    _require_spark()
    from headrace.spark.pipeline_catalog import ready_pipelines
    from headrace.spark.pipeline_file import load_pipeline_file
    from headrace.spark.pipeline_state import known_pipelines

    known = known_pipelines()
    rows = []
    for name, path in ready_pipelines().items():
        state = known.pop(name, None)
        rows.append(
            (name, state.shown if state else "-", load_pipeline_file(path).description, state.file if state else str(path))
        )
    rows += [(state.name, state.shown, "", state.file) for state in known.values()]
    if as_json:
        show_json([dict(zip(("name", "state", "description", "file"), row, strict=True)) for row in rows])
    else:
        show_table(("name", "state", "what it does", "file"), rows)


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

    from headrace.spark.pipeline_state import known_pipelines

    known = known_pipelines()
    if name is not None and name not in known:
        raise Failure(f"pipeline '{name}' has not run on this machine; known are {', '.join(known) or 'none'}")
    chosen = [known[name]] if name is not None else list(known.values())
    if as_json:
        show_json([asdict(state) | {"state": state.shown} for state in chosen])
        return
    for state in chosen:
        title = f"{state.name}: {state.shown}, on {state.master}, since {state.started_at}, seen {state.updated_at}"
        show_table(COLUMNS, [_cells(query) for query in state.queries], title=title)
        if state.error:
            remark(f"{state.name}: {state.error}")


COLUMNS = ("query", "batch", "rows", "rows/s", "batch ms", "lag", "watermark", "late")


def _cells(query: dict[str, Any]) -> tuple[object, ...]:
    rate = round(query["rows_per_second"])
    return (
        query["name"],
        query["batch"],
        query["rows"],
        rate,
        query["batch_ms"],
        query["lag"],
        query["watermark"],
        query["late_rows"],
    )


class _Display:
    """Progress that redraws itself in a terminal, and a line per batch elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live: Any = None
        self._seen: dict[str, int] = {}

    def __enter__(self) -> "_Display":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(self._table([]), console=Console(stderr=True), auto_refresh=False)
            self._live.start()
        else:
            remark(f"{self._name}: starting Spark")
        return self

    def __exit__(self, *failure: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, figures: "list[QueryFigures]") -> None:
        if self._live is not None:
            self._live.update(self._table(figures), refresh=True)
            return
        for one in figures:
            if self._seen.get(one.query_id) != one.batch:
                self._seen[one.query_id] = one.batch
                remark(
                    f"{one.name}: batch {one.batch}, {one.rows:,} rows, {one.rows_per_second:,.0f} rows/s, {one.batch_ms} ms, "
                    f"lag {one.lag:,}" + (f", watermark {one.watermark}" if one.watermark else "")
                )

    def _table(self, figures: "list[QueryFigures]") -> Any:
        from dataclasses import asdict

        from rich.table import Table

        from headrace.cli.output import cell_text

        caption = "Ctrl-C stops it; the next run goes on from there" if figures else "starting Spark …"
        table = Table(title=self._name, caption=caption, title_justify="left", caption_justify="left")
        for column in COLUMNS:
            table.add_column(column, justify="left" if column in ("query", "watermark") else "right")
        for one in figures:
            table.add_row(*(cell_text(value) for value in _cells(asdict(one))))
        return table


def submit_command(
    pipeline: "PipelineFile", master: str, settings: list[str], bootstrap: str | None, extra: list[str]
) -> list[str]:
    """The spark-submit that runs the pipeline's file unchanged."""
    import pyspark

    import headrace.spark.pipeline_job as job

    files = [str(pipeline.path.resolve())]
    transform = pipeline.path.parent / pipeline.transform
    if transform.suffix == ".py" and transform.is_file():
        files.append(str(transform.resolve()))
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--master",
        master,
        "--name",
        f"headrace-{pipeline.name}",
    ]
    command += ["--files", ",".join(files), *[argument for argument in extra if argument != "--"]]
    command += [str(job.__file__), files[0]]
    for pair in settings:
        command += ["--set", pair]
    return command + (["--bootstrap", bootstrap] if bootstrap is not None else [])


def _spark_environment() -> dict[str, str]:
    from headrace.spark.java import require_java

    java = Path(require_java()).resolve()
    return {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(java.parent.parent), **os.environ}


def _load(file: str, settings: list[str] | None, bootstrap: str | None) -> "PipelineFile":
    _require_spark()
    from headrace.spark.pipeline_catalog import find_pipeline
    from headrace.spark.pipeline_file import load_pipeline_file

    return load_pipeline_file(find_pipeline(file), key_values(settings, "--set"), bootstrap)


def _require_spark() -> None:
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        raise Failure(f"{' and '.join(missing)} is not installed: pip install 'headrace[spark]'")
