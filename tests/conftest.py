"""Fixtures for every test that talks to a broker.

`HEADRACE_TEST_BOOTSTRAP=host:port` runs the same tests against a broker that is already there, such as Apache Kafka.
`HYPOTHESIS_PROFILE=explore` makes the property tests try examples they did not try before.
"""

import ast
import gc
import logging
import os
import signal
import sys
import threading
import uuid
import warnings
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

from tests.support import ordering, second_tries
from tests.support.tallying import SEEDS, SumOfSeeds

# The same examples each time, and no limit on how long one takes: a machine that is busy is not a bug.
hypothesis.settings.register_profile("same", deadline=None, database=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Somebody who starts the tests in the background, or with `nohup`, has them, and what they start, ignore the Ctrl-C that some of
# them press and the terminals that others close.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(_number, _handler)

# In Python 3.11 two threads that make syntax trees at a time end in a SystemError (cpython#106905).  Both pytest and a broker in
# this process make some for the tracebacks that they show: the whole run would end.
if sys.version_info < (3, 12):
    _parse, _parsing = ast.parse, threading.RLock()

    def _parse_in_turn(*arguments: Any, **options: Any) -> Any:
        with _parsing:
            return _parse(*arguments, **options)

    ast.parse = _parse_in_turn

_logging_before: tuple[list[logging.Handler], int] = ([], logging.WARNING)

EXTERNAL_BOOTSTRAP = os.environ.get("HEADRACE_TEST_BOOTSTRAP")


@pytest.fixture(scope="session")
def broker() -> Iterator[Any]:
    """A real broker in this process with its log in memory, shared by a session's tests: they use topics of their own."""
    if EXTERNAL_BOOTSTRAP:
        pytest.skip("this test needs a broker of its own, and HEADRACE_TEST_BOOTSTRAP names another")
    from headrace.testing import Broker

    # Some tests stamp their records years ago: retention must not come in between.
    with Broker(memory=True, settings={"log.retention.check.interval.ms": 3_600_000}) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where the broker listens."""
    return EXTERNAL_BOOTSTRAP or str(request.getfixturevalue("broker").bootstrap)


@pytest.fixture
def topic() -> str:
    """A topic name no other test uses.  The topic itself is not created."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def foreign_garbage() -> Iterator[None]:
    """For tests of clients that are not ours: what these leave to the garbage collector is collected while one knows whose it is.

    kafka-python stops its thread before sockets that it has closed are.  Found later, they would fail whichever test runs then;
    excused altogether, sockets of ours would be, too.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def pytest_runtest_logstart() -> None:
    global _logging_before
    root = logging.getLogger()
    _logging_before = (list(root.handlers), root.level)


def pytest_runtest_logfinish() -> None:
    """Commands say where their process logs to.  In this one that would outlast them, and what they log to is closed by then."""
    root = logging.getLogger()
    root.handlers[:], level = _logging_before
    root.setLevel(level)


def pytest_collection_finish() -> None:
    """Thousands of tests are there until the end: nobody who collects garbage has to look at them each time."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """What the tests of a module share, a broker as a rule, is made in one worker and not in each."""
    if isinstance(item, pytest.Function) and item.get_closest_marker("xdist_group") is None:
        known = item._fixtureinfo.name2fixturedefs
        if any(known[name][-1].scope == "module" for name in item.fixturenames if name in known):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        ordering.mix(items)
    second_tries.allow(items)


_tried_again = second_tries.SecondTries()
_simulated = SumOfSeeds()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _tried_again.take(report)
    _simulated.take(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Rules that hold under faults that never came prove nothing; neither does a run that needed many second tries."""
    if (_simulated.missing(SEEDS) or _tried_again.too_many) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    _tried_again.tell(terminalreporter)
    if _simulated.seeds:
        terminalreporter.section(f"what {_simulated.seeds} simulated clusters went through")
        terminalreporter.write_line("\n".join(_simulated.lines()))
        if never := _simulated.missing(SEEDS):
            terminalreporter.write_line(f"FAILED: this never came: {', '.join(never)}", red=True)
