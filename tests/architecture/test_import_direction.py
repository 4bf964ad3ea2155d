"""The architecture can be read off the folder names because imports point one way.  Here that is checked, import by import."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.source_tree import SOURCE, in_one_worker, modules, name_of, tree_of

pytestmark = in_one_worker

DECISIONS = {"replication", "controller", "coordination", "tier"}
NODE = {"model", "host", "metrics", "records", "wire", "log", "metadata", "objects", "security", "broker", *DECISIONS}

# package -> the packages of ours that it may import, besides itself.  A package not listed here has no place yet: the test fails.
MAY_IMPORT = {
    "model": set(),
    "host": set(),
    "metrics": set(),
    "records": {"model"},
    "wire": {"model"},
    "log": {"records", "host", "model"},
    "replication": {"model"},
    "controller": {"model"},
    "coordination": {"model"},
    "tier": {"records", "model"},
    "metadata": {"model", "host", "controller"},
    "objects": {"model"},
    "security": {"model", "wire", "controller"},
    "broker": NODE,
    # From here on: the wire protocol, an address and the machine.  Compatibility cannot be faked by sharing code with the broker.
    "client": {"model", "host", "records", "wire"},
    "registry": {"client"},
    "spark": {"model", "host", "metrics", "records", "wire", "client"},
    "pyspark_headrace": {"spark"},
    "gateway": {"model", "metrics", "records", "wire", "client", "registry"},
    "console": {"model", "records", "wire", "client", "registry", "security", "spark", "gateway"},
    "cli": {"model", "host", "records", "client", "spark", "gateway", "console"},
    "testing": {*NODE, "client", "spark", "gateway", "cli"},
}

# The commands that are the node itself, or open its files, and so may know what the client commands may not.
EXCEPTIONS = {
    "headrace/cli/node/serve.py": {"broker", "metrics"},
    "headrace/cli/node/log.py": {"log"},
    "headrace/cli/node/recover.py": {"objects", "tier"},
    "headrace/cli/node/log_lines.py": {"metrics"},
    "headrace/cli/node/logs.py": {"wire"},
    "headrace/cli/cluster/reassigning.py": {"controller"},
    "headrace/cli/cluster/cluster.py": {"controller"},
    "headrace/cli/cluster/moves.py": {"wire", "controller"},
    "headrace/cli/cluster/quota.py": {"wire"},
    "headrace/cli/cluster/user.py": {"broker"},
    "headrace/cli/cluster/acl.py": {"security"},
    "headrace/cli/cluster/audit.py": {"wire"},
    "headrace/cli/groups/transaction.py": {"wire"},
    "headrace/cli/monitoring/client_metrics.py": {"wire"},
}

# The modules that see all parts of a broker, and who in the broker may import them, be it for types only.
WHOLE_BROKER = {
    "headrace.broker.app": set(),
    "headrace.broker.routes": {"headrace/broker/app.py"},
    "headrace.broker.parts": {"headrace/broker/app.py", "headrace/broker/routes.py"},
}

# Decisions are functions of (state, input, now): nothing in there may wait, look at a clock, or reach a disk or a network.
NOT_FOR_DECISIONS = {"asyncio", "time", "random", "socket", "threading", "os", "pathlib", "secrets", "subprocess", "selectors"}


def package_of(path: Path) -> str | None:
    """The package a file belongs to; None for the `headrace` package's own face, which only re-exports."""
    parts = path.relative_to(SOURCE).parts
    if parts[0] == "headrace":
        return parts[1] if len(parts) > 2 else None
    return parts[0]


def imported_names(path: Path) -> Iterator[tuple[int, str]]:
    """Every module a file imports, also inside functions and under TYPE_CHECKING, with its line."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively; say the whole name"
            yield node.lineno, node.module or ""
            if node.module in ("headrace", "headrace.broker"):
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def package_named(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] == "pyspark_headrace":
        return parts[0]
    if parts[0] == "headrace" and len(parts) > 1 and (SOURCE / "headrace" / parts[1]).is_dir():
        return parts[1]
    return None


def imports_from_above(path: Path) -> Iterator[str]:
    package = package_of(path)
    if package is None:
        return
    allowed = MAY_IMPORT[package] | {package} | EXCEPTIONS.get(name_of(path), set())
    for line, name in imported_names(path):
        if (found := package_named(name)) and found not in allowed:
            yield f"{name_of(path)}, line {line}: {name}; it may import only {sorted(allowed)}"


def test_a_module_imports_only_what_stands_below_its_package() -> None:
    assert [wrong for path in modules() for wrong in imports_from_above(path)] == []


def test_a_decision_does_no_input_or_output_and_never_waits() -> None:
    decisions = [path for path in modules() if package_of(path) in DECISIONS]
    waits = [
        f"{name_of(path)}, line {node.lineno}"
        for path in decisions
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await)
    ]
    reaches = [
        f"{name_of(path)}, line {line}: {name}"
        for path in decisions
        for line, name in imported_names(path)
        if name.split(".")[0] in NOT_FOR_DECISIONS
    ]

    assert not waits
    assert not reaches


def imports_of_the_whole_broker(path: Path) -> set[str]:
    name = str(path.relative_to(SOURCE))
    return {imported for _, imported in imported_names(path) if name not in WHOLE_BROKER.get(imported, {name})}


def test_a_part_of_a_broker_knows_what_it_was_made_with_and_not_the_whole() -> None:
    imported = {name_of(path): imports_of_the_whole_broker(path) for path in modules() if package_of(path) == "broker"}

    assert {name: found for name, found in imported.items() if found} == {}


def test_every_exception_names_a_file_that_is_there() -> None:
    named = {*EXCEPTIONS, *(name for names in WHOLE_BROKER.values() for name in names)}
    gone = [name for name in named if not (SOURCE / name).exists()]

    assert not gone


def test_only_the_sdk_administers_through_librdkafka() -> None:
    """Whoever else asks about topics, settings, groups and offsets asks the SDK."""
    beside = [
        str(path.relative_to(SOURCE))
        for path in modules()
        if package_of(path) not in ("client", "testing")
        and any(name.startswith("confluent_kafka.admin") for _, name in imported_names(path))
    ]

    assert not beside


def names_of_librdkafka(path: Path) -> Iterator[str]:
    """What a file takes from confluent-kafka, by name; the whole of it stands for everything in it."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "confluent_kafka")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "confluent_kafka":
            yield from (alias.name for alias in node.names)


def is_client_of_librdkafka(name: str) -> bool:
    return name.startswith("confluent_kafka") or name.endswith(("Producer", "Consumer", "Client", "Impl"))


def test_librdkafkas_clients_are_made_in_one_place() -> None:
    """`new_producer`, `new_consumer` and `new_admin` are for the SDK, the commands and Spark alike.  Only the programs that judge
    a broker go without the SDK: they must not fail where it does."""
    makers = [
        str(path.relative_to(SOURCE))
        for path in modules()
        if package_of(path) != "testing" and any(map(is_client_of_librdkafka, names_of_librdkafka(path)))
    ]

    assert makers == ["headrace/client/librdkafka.py"]


def test_only_tests_examples_and_benchmarks_import_the_testing_package() -> None:
    users = [
        str(path.relative_to(SOURCE))
        for path in modules()
        if package_of(path) != "testing" and any(package_named(name) == "testing" for _, name in imported_names(path))
    ]

    assert not users
