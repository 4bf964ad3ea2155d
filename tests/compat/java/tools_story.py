"""Play the story of Kafka's tools (`tools_table.py`) against a broker, in one Java process, and tell what came out otherwise."""

import json
import re
import shlex
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

from tests.compat.java.tools_table import CASES, FILES, TOOLS, Case

# These take the broker's address in their own way; the others, as --bootstrap-server.
OWN_ADDRESS = {"producer-perf-test": "--command-property bootstrap.servers={}"}
# In front of their subcommand; elsewhere it may stand behind.
ADDRESS_FIRST = ("features", "metadata-quorum", "transactions")
HEAP = "-Xmx256m"


def play(class_path: str, bootstrap: str, files: Path, *, is_kafka: bool = False) -> int:
    """How many commands ended otherwise than they should."""
    for name, content in FILES.items():
        (files / name).write_text(json.dumps(content))
    return play_steps(class_path, ((case, bootstrap) for case in CASES), files, is_kafka=is_kafka)


def play_steps(class_path: str, steps: Iterable[tuple[Case, str]], files: Path, *options: str, is_kafka: bool = False) -> int:
    """The same for commands of another table, each with the address that it is for; the options are Java's."""
    failed = 0
    with subprocess.Popen(
        ["java", HEAP, *options, "-cp", class_path, "Tools"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        for case, bootstrap in steps:
            code, printed = _run(process, case, bootstrap, files)
            wrong = _what_is_wrong(case, code, printed, is_kafka=is_kafka)
            print(
                f"FAILED  {case.command}\n        {wrong}\n{printed[-1500:]}" if wrong else f"ok      {case.command}", flush=True
            )
            failed += bool(wrong)
        assert process.stdin is not None
        process.stdin.close()
    return failed


def _run(process: subprocess.Popen[str], case: Case, bootstrap: str, files: Path) -> tuple[int, str]:
    tool, *arguments = shlex.split(case.command.replace("{files}", str(files)))
    address = shlex.split(OWN_ADDRESS.get(tool, "--bootstrap-server {}").format(bootstrap))
    given = b64encode(case.given.encode()).decode()
    assert process.stdin is not None
    assert process.stdout is not None
    words = [*address, *arguments] if tool in ADDRESS_FIRST else [*arguments, *address]
    process.stdin.write("\t".join([given, TOOLS[tool], *words]) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert answer, f"the tools died at: {case.command}"
    code, _, printed = answer.strip().partition(" ")
    return int(code), b64decode(printed).decode()


def _what_is_wrong(case: Case, code: int, printed: str, *, is_kafka: bool) -> str | None:
    expected = case.kafka_code if is_kafka and case.kafka_code is not None else case.code
    if code != expected:
        return f"ended with {code} instead of {expected}"
    if is_kafka and case.kafka_code is not None:
        return None
    missing = [pattern for pattern in case.says if not re.search(pattern, printed, re.MULTILINE)]
    return f"does not say {missing}" if missing else None
