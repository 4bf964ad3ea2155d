"""FairLock: one at a time, and nobody waits for ever."""

import threading

from headrace.client.fair_lock import FairLock
from tests.support.waiting import until


def test_whoever_waits_is_next_even_when_the_other_comes_back_at_once() -> None:
    lock, stop, got = FairLock(), threading.Event(), threading.Event()

    def hog() -> None:
        while not stop.is_set():
            with lock:
                until(lambda: lock._next.locked() or stop.is_set(), "the other one waits")

    def waits() -> None:
        with lock:
            got.set()

    threads = [threading.Thread(target=hog), threading.Thread(target=waits)]
    for thread in threads:
        thread.start()

    assert got.wait(5)
    stop.set()
    for thread in threads:
        thread.join()


def test_a_thread_may_take_its_turn_again_while_another_waits() -> None:
    lock, done = FairLock(), threading.Event()

    def waits() -> None:
        with lock:
            done.set()

    with lock:
        other = threading.Thread(target=waits)
        other.start()
        until(lock._next.locked, "the other one waits")
        with lock:
            assert lock.mine
        assert lock.mine
        assert not done.is_set()
    assert done.wait(5)
    assert not lock.mine
    other.join()


def test_a_turn_that_is_taken_is_not_waited_for_unless_asked() -> None:
    lock, answers = FairLock(), list[bool]()

    def tries() -> None:
        answers.append(lock.acquire(timeout=0))
        answers.append(lock.acquire(timeout=0.05))

    with lock:
        other = threading.Thread(target=tries)
        other.start()
        other.join()

    assert answers == [False, False]
    assert lock.acquire(timeout=0)
