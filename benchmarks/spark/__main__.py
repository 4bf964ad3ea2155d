"""`python -m benchmarks.spark [--quick] [--only NAME ...] [--bootstrap HOST:PORT] [--connector-jars …]`: print all tables.

Broker, Spark and Python workers share this machine's cores.  For the peer give the jars of Spark's own connector
(--connector-jars a.jar,b.jar) or its coordinates (--connector-packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION).
"""

import argparse
import os
import platform
import re
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pyspark
from rich.console import Console
from rich.table import Table

from benchmarks.spark.questions import QUESTIONS, SIZES
from benchmarks.spark.stage import Stage, fill, served, session

FOLDER = Path(__file__).parents[2] / ".cache" / "bench-spark"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--only", nargs="+", choices=sorted(QUESTIONS), default=list(QUESTIONS), help="only these questions")
    parser.add_argument("--bootstrap", help="another broker than one of ours, started for this")
    parser.add_argument("--connector-jars", help="the jars of Spark's own Kafka connector, separated by commas")
    parser.add_argument("--connector-packages", help="its coordinates, which Spark then downloads")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False, width=None if os.isatty(1) else 130)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(dir=FOLDER))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        bootstrap = given.bootstrap or stack.enter_context(served(folder))
        spark = session(folder, given.connector_jars, given.connector_packages)
        stack.callback(spark.stop)
        peer = re.search(r"kafka-0-10_[\d.]+[-:]([\d.]+\d)", given.connector_jars or given.connector_packages or "")
        stage = Stage(spark, bootstrap, folder, peer.group(1) if peer else None, 0.1 if given.quick else 1.0)
        console.print(f"{platform.machine()}, {os.cpu_count()} cores for everything, Spark {pyspark.__version__} on local[2]")
        with console.status("filling the broker"):
            for size in SIZES:
                fill(bootstrap, stage.topic(size), stage.rows(size), size)
        for name in given.only:
            show(console, name, stage)


def show(console: Console, name: str, stage: Stage) -> None:
    question = QUESTIONS[name]
    table = Table(title=(question.__doc__ or name).strip(), title_justify="left", box=None, pad_edge=False, show_header=False)
    table.add_column("what")
    table.add_column("figure", justify="right")
    with console.status(name):
        for row in question(stage):
            table.add_row(*row)
    console.print(table, "")


if __name__ == "__main__":
    main()
