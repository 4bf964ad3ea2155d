"""`python -m benchmarks.spark [--quick] [--only NAME ...] [--bootstrap HOST:PORT] [--without-connector]`: print all tables.

Broker, Spark and Python workers share this machine's cores.  The peer is Spark's own Kafka connector, fetched from Maven Central
the first time; where that cannot be reached it is left out, and so are the ratios.
"""

import argparse
import os
import platform
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pyspark
from rich.console import Console
from rich.table import Table

from benchmarks.spark.connector import fetch
from benchmarks.spark.questions import QUESTIONS, SIZES
from benchmarks.spark.stage import Stage, fill, served, session

FOLDER = Path(__file__).parents[2] / ".cache" / "bench-spark"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--only", nargs="+", choices=sorted(QUESTIONS), default=list(QUESTIONS), help="only these questions")
    parser.add_argument("--bootstrap", help="another broker than one of ours, started for this")
    parser.add_argument("--without-connector", action="store_true", help="do not compare with Spark's own Kafka connector")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False, width=None if os.isatty(1) else 130)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(dir=FOLDER))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        bootstrap = given.bootstrap or stack.enter_context(served(folder))
        connector = None if given.without_connector else fetch(FOLDER / "connector")
        spark = session(folder, connector.jars if connector else ())
        stack.callback(spark.stop)
        stage = Stage(spark, bootstrap, folder, connector.version if connector else None, 0.1 if given.quick else 1.0)
        machine = f"{platform.machine()}, {os.cpu_count()} cores for everything, load {os.getloadavg()[0]:.1f}"
        console.print(f"{machine}, Spark {pyspark.__version__} on local[2]")
        if connector is None and not given.without_connector:
            console.print("Maven Central cannot be reached: there is no peer to compare with")
        with console.status("filling the broker"):
            for size in SIZES:
                fill(bootstrap, stage.topic(size), stage.rows(size), size)
        for name in given.only:
            show(console, name, stage)


def show(console: Console, name: str, stage: Stage) -> None:
    question = QUESTIONS[name]
    table = Table(title=(question.__doc__ or name).strip(), title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for column in ("figure", "× connector", "CPU a row"):
        table.add_column(column, justify="right")
    with console.status(name):
        for row in question(stage):
            table.add_row(*row)
    console.print(table, "")


if __name__ == "__main__":
    main()
