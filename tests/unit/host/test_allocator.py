"""What a process frees stays at hand for what it allocates next, and goes back to the machine when it is told so."""

import subprocess
import sys

import pytest

from headrace.host.allocator import keep_freed_memory

# Reads as a broker does for replies: large blocks, all gone before the next ones come.
READS = """
import os, resource, sys
from headrace.host.allocator import give_memory_back, keep_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def read(times):
    for _ in range(times):
        reply = [bytes(b"x" * 4_000_000) for _ in range(12)]
        del reply

if sys.argv[1] == "keep":
    assert keep_freed_memory(64 * 1024 * 1024)
read(2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
read(10)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
kept = resident()
give_memory_back()
print(faults, kept - resident())
"""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only there it is known how")


def faults_and_given_back(how: str) -> tuple[int, int]:
    done = subprocess.run([sys.executable, "-c", READS, how], capture_output=True, text=True, check=True)
    faults, given_back = done.stdout.split()
    return int(faults), int(given_back)


def test_what_was_freed_is_used_again_without_a_page_from_the_kernel() -> None:
    if not keep_freed_memory_is_possible():
        pytest.skip("another C library")
    pages_of_ten_replies = 10 * 12 * 4_000_000 // 4096

    kept, given_back = faults_and_given_back("keep")

    assert kept < pages_of_ten_replies / 100
    assert faults_and_given_back("leave")[0] > 10 * kept
    assert given_back > 40_000_000


def keep_freed_memory_is_possible() -> bool:
    command = "import sys; from headrace.host.allocator import keep_freed_memory; sys.exit(not keep_freed_memory(1 << 20))"
    return subprocess.run([sys.executable, "-c", command], check=False).returncode == 0


def test_where_it_is_not_known_how_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")

    assert not keep_freed_memory(1 << 20)
