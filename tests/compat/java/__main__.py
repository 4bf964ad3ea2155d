"""`make compat-java`: the official Java client and Kafka's own tools against brokers of ours, then its dump tool over our files.

`--against=HOST:PORT` plays the tools alone, against an Apache Kafka that listens there: what our table expects holds for it, too.
`--secured-kafka` does so with the table of a closed broker, and starts an Apache Kafka for it.
Needs Maven, a JDK 17 and a reachable Maven repository; says so and ends with 1 where they are missing.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import Broker
from tests.compat import compacted_topics
from tests.compat.java import secured_story, tools_story
from tests.compat.java.apache_kafka import closed_kafka
from tests.compat.security.stage import secured

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".cache" / "compat-java"
AGAINST = "--against="
SECURED_KAFKA = "--secured-kafka"
DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"
# Small, so that there are several segments, and indexes with several entries.
SMALL_SEGMENTS = {"internal.segment.bytes": "20000", "index.interval.bytes": "1000"}
# The dump tool speaks of these where a file is not as it should be.
COMPLAINTS = re.compile(
    r"isvalid: false|Found timestamp mismatch|Found out of order|Mismatches in|could not be found|Exception|corrupt", re.I
)


def main() -> int:
    for program in ("mvn", "java", "javac"):
        if shutil.which(program) is None:
            print(f"{program} is not installed: apt install maven openjdk-17-jdk-headless")
            return 1
    if peers := [argument.removeprefix(AGAINST) for argument in sys.argv[1:] if argument.startswith(AGAINST)]:
        return 1 if play_tools(peers[0], is_kafka=True) else 0
    if SECURED_KAFKA in sys.argv[1:]:
        return 1 if play_secured_tools(is_kafka=True) else 0
    client, dump = class_path("client", "compile"), class_path("dump", "validate")
    with tempfile.TemporaryDirectory(prefix="headrace-java-") as data:
        with Broker(data=data) as broker:
            stories = subprocess.run(["java", "-cp", client, "Compat", broker.bootstrap], check=False)
            failed = play_tools(broker.bootstrap)
            write_many_segments(broker.bootstrap)
        failed += play_secured_tools()
        stuck = read_compacted(client)
        complaints = dump_all(dump, Path(data))
        blind = dump_misses_a_flipped_bit(dump, Path(data) / "many-0")
    return 1 if stories.returncode or failed or stuck or complaints or blind else 0


def play_tools(bootstrap: str, *, is_kafka: bool = False) -> int:
    with tempfile.TemporaryDirectory(prefix="headrace-tools-") as files:
        return tools_story.play(class_path("tools", "compile"), bootstrap, Path(files), is_kafka=is_kafka)


def play_secured_tools(*, is_kafka: bool = False) -> int:
    tools = class_path("tools", "compile")
    with tempfile.TemporaryDirectory(prefix="headrace-secured-") as folder:
        files = Path(folder) / "files"
        files.mkdir()
        with closed_kafka(tools, Path(folder)) if is_kafka else secured(Path(folder)) as stage:
            return secured_story.play(tools, stage, files, is_kafka=is_kafka)


def read_compacted(class_path: str) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-compacted-") as data,
        Broker(data=data, settings=compacted_topics.SETTINGS) as broker,
    ):
        compacted_topics.prepare(broker, Path(data))
        topics = (compacted_topics.PLAIN, compacted_topics.TRANSACTIONAL, compacted_topics.EXPIRED)
        wanted = [f"{topic}={','.join(compacted_topics.visible_keys(topic))}" for topic in topics]
        return subprocess.run(["java", "-cp", class_path, "Compacted", broker.bootstrap, *wanted], check=False).returncode


def write_many_segments(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("many", 1, 1, config=SMALL_SEGMENTS)])["many"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 20})
    for number in range(2000):
        producer.produce("many", b"%d %s" % (number, b"x" * 100))
    assert producer.flush(30) == 0


def dump_misses_a_flipped_bit(class_path: str, partition: Path) -> bool:
    """A check that cannot fail is none: the tool must complain of a segment with one bit flipped."""
    segment = min(partition.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    missed = not complaints_of(class_path, "log", [segment])
    print("FAILED  a flipped bit was not noticed" if missed else "ok      a flipped bit is noticed")
    return missed


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
    for directory in sorted(path for path in data.iterdir() if any(log.stat().st_size for log in path.glob("*.log"))):
        for suffix in ("log", "index", "timeindex", "txnindex", "snapshot"):
            files = sorted(path for path in directory.glob(f"*.{suffix}") if suffix == "log" or path.stat().st_size)
            if files:
                complaints += dump(class_path, directory.name, suffix, files)
    return complaints


def dump(class_path: str, name: str, suffix: str, files: list[Path]) -> int:
    wrong = complaints_of(class_path, suffix, files)
    print(f"FAILED  {name} *.{suffix}: {wrong[:3]}" if wrong else f"ok      {name} *.{suffix}: {len(files)} files")
    return 1 if wrong else 0


def complaints_of(class_path: str, suffix: str, files: list[Path]) -> list[str]:
    """What the dump tool has to say against the files."""
    deep = ["--deep-iteration"] if suffix == "log" else []
    names = ",".join(str(path) for path in files)
    command = ["java", "-cp", class_path, DUMP_TOOL, *deep, "--files", names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    if done.returncode or not output.strip():
        return [output[-500:] or "the tool printed nothing"]
    return [line for line in output.splitlines() if COMPLAINTS.search(line)]


if __name__ == "__main__":
    sys.exit(main())
