"""Which tests may be tried again, and how often before a run fails all the same.

A test of real processes shares two cores with others: one that starves says nothing about the product, so it gets another try,
which is listed at the end of the run with its reason.  Everything else is deterministic and gets none.
"""

from typing import Any

import pytest

TRIES_AGAIN_MAX = 3  # in a whole run; more is a defect of the product or of its tests
TRIES_AGAIN_AFTER_S = 2.0
# The files that start processes of their own.  Other people's clients against a broker in this process are none of them.
PROCESSES = (
    "tests/cluster/test_faults.py",
    "tests/cluster/test_machines.py",
    "tests/cluster/test_rolling_restart.py",
    "tests/cluster/test_secured_cluster.py",
    "tests/cluster/test_torture.py",
    "tests/compat/security/test_franz_go.py",
    "tests/compat/security/test_kafkajs_secured.py",
    "tests/compat/security/test_kcat_secured.py",
    "tests/compat/security/test_oidc.py",
    "tests/compat/test_compacted.py",
    "tests/compat/test_groups_churn.py",
    "tests/compat/test_groups_story.py",
    "tests/compat/test_kafkajs.py",
    "tests/compat/test_kcat.py",
    "tests/compat/test_transactions_exactly_once.py",
    "tests/docs/test_blocks.py",
    "tests/examples/",
    "tests/integration/test_bounded_memory.py",
    "tests/integration/test_closing.py",
    "tests/integration/test_cluster_command.py",
    "tests/integration/test_cluster_failures.py",
    "tests/integration/test_cluster_growth.py",
    "tests/integration/test_groups_restart.py",
    "tests/integration/test_health.py",
    "tests/integration/test_kill_and_recover.py",
    "tests/integration/test_schema_registry.py",
    "tests/integration/test_sdk_bad_use.py",
    "tests/integration/test_sdk_exactly_once.py",
    "tests/integration/test_sdk_losses.py",
    "tests/spark/",
    "tests/unit/metadata/test_etcd.py",
)


def allow(items: list[pytest.Item]) -> None:
    """Let tests of real processes be tried again."""
    for item in items:
        if item.nodeid.startswith(PROCESSES):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=TRIES_AGAIN_AFTER_S))


class SecondTries:
    """The tests of this run that were tried again."""

    def __init__(self) -> None:
        self._reports: list[pytest.TestReport] = []

    def take(self, report: pytest.TestReport) -> None:
        if str(report.outcome) == "rerun":
            self._reports.append(report)

    @property
    def too_many(self) -> bool:
        return len(self._reports) > TRIES_AGAIN_MAX

    def tell(self, terminalreporter: Any) -> None:
        """Why each was tried again: it passed in the end, but somebody should know what went wrong before."""
        for report in self._reports:
            terminalreporter.section(f"tried again: {report.nodeid}")
            told = report.longreprtext.splitlines()
            # What a test left to the garbage collector comes as a group of exceptions, which pytest shows in another form.
            lines = [line for line in told if line.startswith("E ")][:20] or told[-20:]
            terminalreporter.write_line("\n".join(lines))
        if self.too_many:
            limit = f"{len(self._reports)} tests were tried again, and {TRIES_AGAIN_MAX} is the limit"
            terminalreporter.write_line(f"FAILED: {limit}", red=True)
