"""A process to compute in: it answers, it fails as it should, and it never outlives who asked."""

import operator
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headrace.host.worker import WorkerLost, WorkerProcess
from headrace.log.results import CorruptBatch
from tests.support.waiting import until


@pytest.fixture
def worker() -> object:
    worker = WorkerProcess()
    yield worker
    worker.end()


def test_a_call_is_answered_by_another_process_that_stays(worker: WorkerProcess) -> None:
    first = worker.call(os.getpid)

    assert first != os.getpid()
    assert worker.call(operator.add, 2, 3) == 5
    assert worker.call(os.getpid) == first


def test_what_is_printed_there_does_not_get_among_the_answers(worker: WorkerProcess) -> None:
    worker.call(print, "noise")

    assert worker.call(operator.mul, 3, 4) == 12


def test_what_is_raised_there_is_raised_here(worker: WorkerProcess) -> None:
    with pytest.raises(ZeroDivisionError):
        worker.call(operator.truediv, 1, 0)
    with pytest.raises(UnicodeDecodeError):
        worker.call(bytes.decode, b"\xff")
    assert worker.call(operator.add, 1, 1) == 2


def test_a_worker_that_dies_is_told_of_and_does_not_hang_its_caller(worker: WorkerProcess) -> None:
    outcome: list[BaseException] = []

    def sleep() -> None:
        try:
            worker.call(time.sleep, 600)
        except WorkerLost as error:
            outcome.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    worker.end()
    thread.join(20)

    assert len(outcome) == 1
    with pytest.raises(WorkerLost):
        worker.call(os.getpid)


def test_a_worker_that_stands_still_is_ended_when_its_time_is_over(worker: WorkerProcess) -> None:
    os.kill(worker.call(os.getpid), signal.SIGSTOP)

    with pytest.raises(WorkerLost, match="did not answer within 0 s"):
        worker.call(os.getpid, seconds_max=0.2)
    worker.end()


def has_ended(process_id: int) -> bool:
    try:
        # Empty for a zombie whose new parent has not looked yet.
        return not Path(f"/proc/{process_id}/cmdline").read_bytes()
    except FileNotFoundError:
        return True


def test_a_worker_ends_with_its_owner(tmp_path: Path) -> None:
    script = tmp_path / "owner.py"
    script.write_text(
        "import os, sys, time\n"
        "from headrace.host.worker import WorkerProcess\n"
        "print(WorkerProcess().call(os.getpid), flush=True)\n"
        "time.sleep(600)\n"
    )
    owner = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    process_id = int(owner.stdout.readline())
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()

    until(lambda: has_ended(process_id), "the worker ends")


def test_damage_found_there_can_be_told_here(worker: WorkerProcess) -> None:
    with pytest.raises(CorruptBatch) as error:
        worker.call(_raise_corrupt_batch)
    assert (error.value.position, error.value.offset) == (7, 3)


def _raise_corrupt_batch() -> None:
    raise CorruptBatch(Path("x"), 7, 3, "a test")
