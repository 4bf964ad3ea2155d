"""A process of our own to compute in, spoken to over its standard input and output.

Python's own pools of processes import the main script again in each of them; a script that starts a broker without asking whether
it is `__main__` would then start another.  This one is a fresh interpreter that knows nothing but the modules it is asked for.

Always: the process ends when its owner does, whatever happens to the owner; a call that it does not survive, or does not answer
in time, raises `WorkerLost`.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO, TypeVar

Result = TypeVar("Result")

# How long a call may take, unless its caller knows better.
SECONDS_MAX = 600.0


class WorkerLost(Exception):
    """The process ended before it had answered."""


class WorkerProcess:
    """One process, one call at a time."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace.host.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._lock = threading.Lock()

    def call(self, function: Callable[..., Result], *arguments: object, seconds_max: float = SECONDS_MAX) -> Result:
        """In any thread: have a module's function called there; what it returns, or raises.  One that takes too long is ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            # A process that stands still does not end by itself; without it, reading its answer ends.
            timer = threading.Timer(seconds_max, self._end_late, [too_late := threading.Event()])
            timer.daemon = True
            timer.start()
            try:
                pickle.dump((function, arguments), self._process.stdin)
                self._process.stdin.flush()
                succeeded, outcome = pickle.load(self._process.stdout)
            except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
                reason = f"did not answer within {seconds_max:.0f} s and was ended" if too_late.is_set() else "has ended"
                raise WorkerLost(f"the worker process {reason}") from error
            finally:
                timer.cancel()
        if not succeeded:
            raise outcome
        result: Result = outcome
        return result

    def _end_late(self, too_late: threading.Event) -> None:
        too_late.set()
        self._process.kill()

    def end(self) -> None:
        """Let it go, whatever it is doing.  Does not wait for more than the kernel takes."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and self._lock.acquire(blocking=False):
                try:
                    pipe.close()
                except OSError:
                    pass
                finally:
                    self._lock.release()


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer one call after the other until nobody asks any more."""
    while True:
        try:
            function, arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            answer = pickle.dumps((True, function(*arguments)))
        except BaseException as error:
            answer = _failure(error)
        answers.write(answer)
        answers.flush()


def _failure(error: BaseException) -> bytes:
    try:
        answer = pickle.dumps((False, error))
        pickle.loads(answer)
    except Exception:
        # Not every exception can travel; what it says can.
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return answer


def main() -> None:
    # Whoever interrupts a broker at a terminal interrupts this process too; the broker decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # Nothing that is printed may get among the answers.
    os.dup2(2, 1)
    try:
        serve(sys.stdin.buffer, answers)
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main()
