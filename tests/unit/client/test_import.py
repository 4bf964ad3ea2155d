"""`import headrace` is quick, and every name it promises is there."""

import os
import subprocess
import sys
from pathlib import Path

import headrace

SCRIPT = """
import sys, time
begin = time.process_time()
import headrace
took = time.process_time() - begin
assert not {"confluent_kafka", "typing"} & sys.modules.keys(), "imported too early"
assert not [name for name in sys.modules if name.startswith("headrace.")], "imported too early"
print(took)
"""


def seconds_to_import() -> float:
    return float(subprocess.run([sys.executable, "-S", "-c", SCRIPT], capture_output=True, check=True, env=environment()).stdout)


def environment() -> dict[str, str]:
    """Without `site` (-S) the child starts sooner; then it has to be told where we are."""
    home = str(Path(headrace.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")])}


def test_importing_headrace_loads_neither_librdkafka_nor_anything_of_ours() -> None:
    # Measured at 0.2 ms; the bound is what was promised.  CPU time, because other programs on the machine are not our doing.
    assert seconds_to_import() < 0.05


def test_every_promised_name_is_there_and_is_what_it_says() -> None:
    for name in headrace.__all__:
        assert getattr(headrace, name).__name__ == name
    assert set(headrace.__all__) <= set(dir(headrace))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(headrace, "Cconsumer")
