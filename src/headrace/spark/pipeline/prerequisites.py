"""What a pipeline needs and can be known to lack before Spark starts, which takes half a minute: Java, brokers, topics.

Each is said in one sentence, with the way to get it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from headrace.client.arguments import bootstrap_address
from headrace.spark.cluster import Cluster
from headrace.spark.errors import PipelineError
from headrace.spark.options.options import SinkOptions, SourceOptions, sink_options, source_options
from headrace.spark.pipeline.file import PipelineFile
from headrace.spark.source.subscription import subscribed

VERSION_MIN = 17
PATIENCE_MS = 3000  # the SDK's, with an address where no broker answers
ONE_ATTEMPT_MS = 0
HOW_TO_GET = (
    f"install one (Debian: apt install openjdk-{VERSION_MIN}-jre-headless, macOS: brew install openjdk@{VERSION_MIN}) "
    "or set JAVA_HOME to one"
)


def require_java() -> str:
    """The path of a java of version 17 or later: JAVA_HOME's, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, where there is none" if home else "there is none on the PATH"
        raise PipelineError(f"Spark needs Java {VERSION_MIN} or later, and {where}: {HOW_TO_GET}")
    version = java_version(java)
    if version is None or version < VERSION_MIN:
        raise PipelineError(
            f"Spark needs Java {VERSION_MIN} or later, and {java} is version {version or 'unknown'}: {HOW_TO_GET}"
        )
    return java


def java_version(java: str) -> int | None:
    """The major version: 17 of "17.0.15", 8 of "1.8.0_402"."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if found is None:
        return None
    major, minor = int(found.group(1)), int(found.group(2) or 0)
    return minor if major == 1 else major


def require_brokers(pipeline: PipelineFile) -> None:
    """Check the options of the source and the sinks, reach the brokers that they name, and find the topics that a batch reads."""
    named: list[SourceOptions | SinkOptions] = []
    if pipeline.source_format == "headrace":
        named.append(source_options(_lower(pipeline.source), streaming=pipeline.streaming))
    named += [sink_options(_lower(sink.options)) for sink in pipeline.sinks if sink.format == "headrace"]
    reached: set[str] = set()
    for options in named:
        address = bootstrap_address(options.client["bootstrap.servers"])
        if address not in reached:
            reached.add(address)
            _reach(options, is_batch=not pipeline.streaming)


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    """As Spark hands them over."""
    return {name.lower(): value for name, value in options.items()}


def _reach(options: SourceOptions | SinkOptions, *, is_batch: bool) -> None:
    patience_ms = min(PATIENCE_MS, options.connect_timeout_ms // 2)
    cluster = Cluster(options.client, connect_timeout_ms=options.connect_timeout_ms, patience_ms=patience_ms)
    try:
        if is_batch and isinstance(options, SourceOptions):
            subscribed(cluster, options, ONE_ATTEMPT_MS)
        else:
            cluster.names(ONE_ATTEMPT_MS)
    finally:
        cluster.close()
