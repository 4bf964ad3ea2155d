"""`make compat-java`: the official Java client against a broker of ours, then Kafka's own dump tool over the files it left.

Needs Maven, a JDK 17 and a reachable Maven repository; says so and ends with 1 where they are missing.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.testing import Broker

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".cache" / "compat-java"
DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"
# Small, so that there are several segments, and indexes with several entries.
SETTINGS = {"log.segment.bytes": "2097152", "log.index.interval.bytes": "4096"}
# The dump tool speaks of these where a file is not as it should be.
COMPLAINTS = re.compile(
    r"isvalid: false|Found timestamp mismatch|Found out of order|Mismatches in|could not be found|Exception|corrupt", re.I
)


def main() -> int:
    for program in ("mvn", "java", "javac"):
        if shutil.which(program) is None:
            print(f"{program} is not installed: apt install maven openjdk-17-jdk-headless")
            return 1
    client, dump = class_path("client", "compile"), class_path("dump", "validate")
    with tempfile.TemporaryDirectory(prefix="headrace-java-") as data:
        with Broker(data=data, settings=SETTINGS) as broker:
            stories = subprocess.run(["java", "-cp", client, "Compat", broker.bootstrap], check=False)
        complaints = dump_all(dump, Path(data))
    return 1 if stories.returncode or complaints else 0


def class_path(project: str, goal: str) -> str:
    """Have Maven fetch and compile a project outside of the repository's files; its class path."""
    copy = CACHE / project
    shutil.copytree(HERE / project, copy, dirs_exist_ok=True)
    listing = copy / "classpath.txt"
    command = ["mvn", "-q", "-B", goal, "dependency:build-classpath", f"-Dmdep.outputFile={listing}"]
    done = subprocess.run(command, cwd=copy, check=False)
    if done.returncode:
        sys.exit(f"Maven could not build {project}.")
    return f"{copy / 'target' / 'classes'}:{listing.read_text().strip()}"


def dump_all(class_path: str, data: Path) -> int:
    """Dump every segment with its indexes; how many of the dumps have something to complain about."""
    complaints = 0
    for directory in sorted(path for path in data.iterdir() if path.is_dir() and list(path.glob("*.log"))):
        for suffix in ("log", "index", "timeindex", "txnindex", "snapshot"):
            files = sorted(path for path in directory.glob(f"*.{suffix}") if suffix == "log" or path.stat().st_size)
            if files:
                complaints += dump(class_path, directory.name, suffix, files)
    return complaints


def dump(class_path: str, name: str, suffix: str, files: list[Path]) -> int:
    deep = ["--deep-iteration"] if suffix == "log" else []
    names = ",".join(str(path) for path in files)
    done = subprocess.run(
        ["java", "-cp", class_path, DUMP_TOOL, *deep, "--files", names], capture_output=True, text=True, check=False
    )
    output = done.stdout + done.stderr
    wrong = [line for line in output.splitlines() if COMPLAINTS.search(line)]
    if done.returncode or wrong or not output.strip():
        print(f"FAILED  {name} *.{suffix}: {wrong[:3] or output[-500:] or 'the tool printed nothing'}")
        return 1
    print(f"ok      {name} *.{suffix}: {len(files)} files, {len(output.splitlines())} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
