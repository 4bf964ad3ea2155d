"""Small tasks are not paid for with the imports of the worker."""

import gc

import pytest

from headrace.spark import worker_process


def test_the_first_task_of_a_process_sets_the_imports_aside_and_later_ones_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(worker_process, "_settled_in", None)
    for _ in range(3):
        worker_process.settle()
    monkeypatch.setattr("os.getpid", lambda: -1)  # as after a fork
    worker_process.settle()

    assert len(frozen) == 2
