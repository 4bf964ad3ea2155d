"""Push with threads: one that fetches, and workers that call back.

Always: after `stop` no callback runs, what was finished is committed, and what was fetched and not finished will be read again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headrace.client.arguments import Duration, seconds, whole_number
from headrace.client.consumer.feed import feed_of
from headrace.client.deadletter.deadletter import DeadLetters
from headrace.client.errors import Closed
from headrace.client.push.handlers import plain_function
from headrace.client.push.scheduling import OnError, Schedule, Task
from headrace.client.records.record import Record
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.consumer.consumer import Consumer

FETCH_SLICE_S = 0.1
IDLE_SLICE_S = 1.0
REVOKE_WAIT_S = 5.0  # how long a rebalance waits for callbacks that run
STOP_WAIT_S = 30.0


class Subscription:
    """A running push.  `wait` for it, `stop` it, or use it as a `with` block that stops it at its end."""

    def __init__(
        self,
        consumer: Consumer[Any, Any],
        callback: Callable[[Record[Any, Any]], object],
        *,
        workers: int,
        order: str,
        pending_max: int,
        dead_letters: DeadLetters | None,
        on_error: OnError | None,
    ) -> None:
        plain_function("callback", callback, "a Record", hint=" (AsyncConsumer takes async functions)")
        whole_number("workers", workers, at_least=1, at_most=1000)
        self._consumer = consumer  # as long as this runs, the consumer is in use
        self._feed = feed_of(consumer)
        self._callback = callback
        if self._feed.spans is not None:
            from headrace.client.tracing.handling import around

            self._callback = around(self._feed.spans, callback)
        self._schedule = Schedule(self._feed, order=order, pending_max=pending_max, dead_letters=dead_letters, on_error=on_error)
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._ending = threading.Lock()
        self._feed.begin_push(self._before_revoke)
        self._fetcher = threading.Thread(target=self._fetch, name="headrace-push-fetch", daemon=True)
        self._workers = [threading.Thread(target=self._serve, name=f"headrace-push-{n}", daemon=True) for n in range(workers)]
        for thread in (self._fetcher, *self._workers):
            thread.start()

    @property
    def running(self) -> bool:
        """Whether it has not been stopped, and nothing has ended it."""
        return not self._stopping.is_set()

    def wait(self, timeout: Duration | None = None) -> bool:
        """Until the subscription has ended, which is True, or `timeout` has passed.  Raises what ended it."""
        deadline = None if timeout is None else time.monotonic() + seconds("timeout", timeout)
        while not self._stopping.wait(0.2 if deadline is None else max(0.0, min(0.2, deadline - time.monotonic()))):
            if deadline is not None and time.monotonic() >= deadline:
                return False
        self.stop()
        self._schedule.raise_error()
        return True

    def stop(self, timeout: Duration = STOP_WAIT_S) -> None:
        """Wait for running callbacks, start no more, commit what is finished.  Calling it again has no effect."""
        self._stop_soon()
        threads = (self._fetcher, *self._workers)
        if threading.current_thread() in threads:
            return  # a callback asked: its own end is what the others wait for
        deadline = time.monotonic() + seconds("timeout", timeout)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            raise self._schedule.still_running(timeout)
        self._schedule.wait_until_idle(deadline)
        with self._ending:
            if not self._stopped.is_set():
                self._stopped.set()
                self._feed.end_push(self._schedule.unfinished())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        if error is None:
            self._schedule.raise_error()

    def raise_error(self) -> None:
        """Raise what ended it, if nobody has heard of it yet."""
        self._schedule.raise_error()

    def _stop_soon(self) -> None:
        self._stopping.set()
        with self._schedule.changed:
            self._schedule.changed.notify_all()

    def _fetch(self) -> None:
        try:
            while not self._stopping.is_set():
                room = self._schedule.room()
                if room > 0:
                    self._schedule.accept(self._feed.take_for_push(room, FETCH_SLICE_S))
                else:
                    # Not polling is the back-pressure; the consumer's own thread keeps the membership meanwhile.
                    with self._schedule.changed:
                        self._schedule.changed.wait(FETCH_SLICE_S)
        except Closed:
            pass
        except BaseException as error:
            self._schedule.error = self._schedule.error or error
        finally:
            self._stop_soon()

    def _serve(self) -> None:
        while (task := self._next_task()) is not None:
            if task.parking:
                self._schedule.park(task)
            elif (error := task.what_failed()) is not None:
                self._schedule.failed(task, error)
            else:
                self._call(task)

    def _next_task(self) -> Task | None:
        schedule = self._schedule
        with schedule.changed:
            # What ends the subscription may come from elsewhere: from a dead-letter topic, say, that refuses a record for good.
            while not self._stopping.is_set() and schedule.error is None:
                task = schedule.take()
                if task is not None:
                    return task
                schedule.wait_for_work(IDLE_SLICE_S)
        self._stop_soon()
        return None

    def _call(self, task: Task) -> None:
        try:
            returned = self._callback(task.record)
        except BaseException as error:
            self._schedule.failed(task, error)
        else:
            self._schedule.returned(task, returned)

    def _before_revoke(self, places: frozenset[TopicPartition]) -> None:
        self._schedule.before_revoke(places, REVOKE_WAIT_S)
