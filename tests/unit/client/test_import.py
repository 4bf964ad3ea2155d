"""`import headrace` is quick, and every name it promises is there."""

import subprocess
import sys

import headrace

SCRIPT = """
import sys, time
begin = time.perf_counter()
import headrace
took = time.perf_counter() - begin
assert "confluent_kafka" not in sys.modules, "imported too early"
assert not [name for name in sys.modules if name.startswith("headrace.")], "imported too early"
print(took)
"""


def test_importing_headrace_loads_neither_librdkafka_nor_anything_of_ours() -> None:
    took = min(float(subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True).stdout) for _ in range(3))

    # Measured at 2 ms alone; the bound is what was promised, on a machine that does other things too.
    assert took < 0.05


def test_every_promised_name_is_there_and_is_what_it_says() -> None:
    for name in headrace.__all__:
        assert getattr(headrace, name).__name__ == name
    assert set(headrace.__all__) <= set(dir(headrace))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(headrace, "Cconsumer")
