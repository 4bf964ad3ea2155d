"""In which order the tests of a run with several workers begin: so that all cores are busy from the first minute to the last.

What takes longest begins first, so that nobody waits for it in the end.  Everything else comes in an order that has nothing to do
with what it is about, the same in each worker and each run: tests that wait for processes then stand beside tests that compute.
By folders, all workers would wait together, and later all would compute.
"""

from zlib import crc32

import pytest

LONGEST = (
    "tests/spark/",
    "tests/cluster/",
    "tests/integration/test_cluster",
    "tests/compat/test_groups_churn",
    "tests/docs/test_blocks",
    "tests/simulation/",
    "tests/integration/test_transactions_crash_everywhere",
)


def mix(items: list[pytest.Item]) -> None:
    """Sort them; those that have to run in one worker stay together, in their order."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[int, int]:
    longest = next((rank for rank, start in enumerate(LONGEST) if item.nodeid.startswith(start)), len(LONGEST))
    group = item.get_closest_marker("xdist_group")
    together = str(group.args or group.kwargs) if group is not None else item.nodeid
    return longest, 0 if longest < len(LONGEST) else crc32(together.encode())
