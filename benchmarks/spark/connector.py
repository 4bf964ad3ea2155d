"""The jars of Spark's own Kafka connector, fetched by Spark's own means, so that both can be measured in one run.

Only the benchmark wants them.  Not every version of Spark has its connector published: the nearest one that there is will do.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import launch_gateway

SCALA = "2.13"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}"
TOKENS = f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}"
OLDER = ("4.2.0", "4.1.1", "4.0.1", "4.0.0")
CLIENT = "org.apache.kafka:kafka-clients:3.9.1"
POOL = "org.apache.commons:commons-pool2:2.12.1"


@dataclass(frozen=True)
class Connector:
    """The peer."""

    version: str
    jars: tuple[Path, ...]


def fetch(folder: Path) -> Connector | None:
    """The jars, from the folder where they were put the last time or from Maven Central; None when it cannot be reached."""
    kept = sorted((folder / "jars").glob("*.jar"))
    if len(kept) == 4:
        return _of(kept)
    resolver = _Resolver(folder)
    try:
        versions = (pyspark.__version__, *OLDER)
        found = [resolver.first(CONNECTOR, versions), resolver.first(TOKENS, versions)]
        found += [resolver.jar(CLIENT), resolver.jar(POOL)]
    finally:
        resolver.close()
    jars = [jar for jar in found if jar is not None]
    return _of(jars) if len(jars) == 4 else None


def _of(jars: list[Path]) -> Connector:
    (main,) = [jar for jar in jars if "spark-sql-kafka" in jar.name]
    return Connector(main.stem.rpartition("-")[2], tuple(jars))


class _Resolver:
    """Spark's resolver of packages, in a Java of its own that ends with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        given = os.environ.get("PYSPARK_SUBMIT_ARGS")
        os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-memory 256m pyspark-shell"
        try:
            self._gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            os.environ.pop("PYSPARK_SUBMIT_ARGS")
            if given is not None:
                os.environ["PYSPARK_SUBMIT_ARGS"] = given

    def first(self, package: str, versions: tuple[str, ...]) -> Path | None:
        return next((jar for jar in (self.jar(f"{package}:{version}") for version in versions) if jar is not None), None)

    def jar(self, coordinates: str) -> Path | None:
        """One jar without what it depends on; None when there is none or nobody answers."""
        jvm = self._gateway.jvm
        option, silence = jvm.scala.Option, jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream())
        nothing = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList()).toSeq()
        maven = jvm.org.apache.spark.util.MavenUtils
        try:
            settings = maven.buildIvySettings(option.empty(), option.apply(str(self._folder)), False, silence)
            paths = maven.resolveMavenCoordinates(coordinates, settings, option.empty(), False, nothing, False, silence)
        except Py4JJavaError:
            return None
        return Path(paths.mkString(","))

    def close(self) -> None:
        self._gateway.shutdown()
        self._gateway.proc.stdin.close()
        self._gateway.proc.wait(20)
