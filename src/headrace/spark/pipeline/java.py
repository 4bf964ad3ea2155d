"""Finds a Java that Spark can run on, or says in one sentence how to get one."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from headrace.spark.errors import PipelineError

VERSION_MIN = 17
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
