"""What a broker that is asked for nothing special imports, as that is most of its start and of its memory when idle."""

import ast
import json
import subprocess
import sys
from functools import cache

import pytest

from headrace.cli.main import COMMANDS
from tests.architecture.test_import_direction import NODE, package_of
from tests.support.source_tree import in_one_worker, modules, name_of, tree_of

# Each takes tens of milliseconds or megabytes, and is for brokers, or commands, that have a use for it.
HEAVY = {
    "aiohttp": "the gateway",
    "confluent_kafka": "commands that are clients",
    "cryptography": "certificates and keys",
    "email": "metadata of packages",
    "fastavro": "the registry and the SDK's formats",
    "google": "telemetry and Protobuf, which read it",
    "jsonschema": "the registry and the SDK's formats",
    "jwt": "tokens of OAuth",
    "multiprocessing": "compaction",
    "pydantic": "values on the command line that are not plain",
    "pyspark": "pipelines",
    "rich": "help and tables",
    "yaml": "monitoring",
}
# A little more than there are, of ours and in all.  Before one is raised: need what is new be there before it is asked for?
OUR_MODULES_MAX = 640
MODULES_MAX = 900
COMMAND_MODULES = {where.partition(":")[0] for where in COMMANDS.values()}

# Tells what is loaded when clients may come, and leaves.
PLAIN_START = """
import json, os, signal, sys
from headrace.cli.main import run
from headrace.cli.node import serve

def leave(*about):
    print(json.dumps(sorted(sys.modules)))
    os.kill(os.getpid(), signal.SIGTERM)

serve._on_ready = leave
run(["serve", "--memory", "--listen", "127.0.0.1:0"])
"""
HELP = """
import json, sys
from headrace.cli.main import run

run(["topic", "create", "--help"])
print(json.dumps(sorted(sys.modules)))
"""


@cache
def loaded_by(script: str) -> frozenset[str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout, done.stderr
    return frozenset(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.xdist_group("start-imports")
def test_a_plain_broker_loads_nothing_heavy_that_it_has_no_use_for() -> None:
    loaded = {name.partition(".")[0] for name in loaded_by(PLAIN_START)}

    assert {name: HEAVY[name] for name in loaded & set(HEAVY)} == {}


@pytest.mark.xdist_group("start-imports")
def test_a_plain_broker_loads_no_more_modules_than_it_did() -> None:
    loaded = loaded_by(PLAIN_START)

    assert len([name for name in loaded if name.startswith("headrace.")]) <= OUR_MODULES_MAX
    assert len(loaded) <= MODULES_MAX


@pytest.mark.xdist_group("start-imports")
def test_a_broker_loads_neither_a_client_nor_another_command() -> None:
    strange = ("headrace.client", "headrace.gateway", "headrace.registry", "headrace.spark", "headrace.testing")
    tiered = ("headrace.broker.tiering", "headrace.objects", "headrace.tier", "obstore")

    assert [name for name in loaded_by(PLAIN_START) if name.startswith((*strange, *tiered))] == []
    assert loaded_by(PLAIN_START) & COMMAND_MODULES == {"headrace.cli.node.serve"}


def test_a_command_loads_no_other_command_and_no_broker() -> None:
    loaded = loaded_by(HELP)

    assert loaded & COMMAND_MODULES == {"headrace.cli.topics.topic"}
    assert [name for name in loaded if name.startswith(("headrace.broker", "headrace.log", "headrace.coordination"))] == []


@in_one_worker
def test_a_node_declares_its_classes_by_what_compiles_them_when_they_are_needed() -> None:
    """The standard `dataclass` compiles six functions for each of five hundred classes, before anybody is served."""
    compiled_at_once = [
        f"{name_of(path)}, line {node.lineno}"
        for path in modules()
        if package_of(path) in NODE
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses" and "dataclass" in {each.name for each in node.names}
    ]

    assert compiled_at_once == [], "take `dataclass` from headrace.declaring"
