"""A topic as a queue: any number of workers, each record acknowledged by itself, tried again, or set aside when it will not do.

Stands on share groups (KIP-932) by a client of our own: confluent-kafka's share consumer has no renewal of locks, wants every
record of a poll acknowledged before the next, and has no room for a reason; see the decision record 0033.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from headrace.client.arguments import Duration, label, seconds, topic_name, whole_number
from headrace.client.errors import Closed, WrongState
from headrace.client.producer.producer import Producer
from headrace.client.push.handlers import plain_function, refuse_unrun
from headrace.client.queue.declaring import declaration, ensure_delays, ensure_group, ensure_topic
from headrace.client.queue.ending import ended_by_signals
from headrace.client.queue.engine import Engine, OnJobs
from headrace.client.queue.job import Job
from headrace.client.records.record import Delivery, HeadersGiven
from headrace.client.records.serialization import Format, codec
from headrace.client.records.type_variables import K, V
from headrace.client.security.connecting import way_to
from headrace.client.security.options import SecurityOptions, check_names

if TYPE_CHECKING:
    from headrace.client.queue.depth import Depth


class Queue(Generic[K, V]):
    """Puts jobs into a topic and works them off.  Use it in a `with` block; share it between threads.

    The topic is made where it does not exist, with delays, and the group begins with what was put before it came to be.  A job
    is somebody's for the time of a lock, which is renewed for as long as somebody works on it; if its worker dies it is free at
    once.  A job may come twice (its worker died after the work, before its word), and is never lost.

    Args:
        topic: Where the jobs are.
        group: Who works them off together; needed for all but `put`.
        bootstrap: `host:port`, or several; else `HEADRACE_BOOTSTRAP` from the environment, else 127.0.0.1:9092.
        keys: How keys are written and read, as for Producer and Consumer.
        values: The same for values.
        attempts: How often a job is delivered before it is given up (`share.delivery.count.limit`).
        backoff: How long a job rests after its first failure, and twice as long after each further one.
        lock: How long a job stays its worker's without a sign of life.
        dead_letters: The topic for jobs that are rejected or whose attempts are used up: `dlq.<topic>`, unless given; False drops
            them.  For these four, what the group has already stays where nothing is given.
        prefetch: How many jobs are fetched ahead; by how quickly they are worked off, unless given.
        client_id: What brokers call it in their logs and quotas.
        librdkafka: Any settings of librdkafka by their own names; of these, those of the connection also hold for reading.
        security: How to get in: a `profile`, or `username`, `password_file`, `ca_file` and the other SecurityOptions.
    """

    def __init__(
        self,
        topic: str,
        *,
        group: str | None = None,
        bootstrap: str | Iterable[str] | None = None,
        keys: Format[K] = bytes,  # type: ignore[assignment]  # bytes is what K is then
        values: Format[V] = bytes,  # type: ignore[assignment]
        attempts: int | None = None,
        backoff: Duration | None = None,
        lock: Duration | None = None,
        dead_letters: str | bool = True,
        prefetch: int | None = None,
        client_id: str = "headrace",
        librdkafka: Mapping[str, Any] | None = None,
        **security: Unpack[SecurityOptions],
    ) -> None:
        check_names(security, "Queue")
        self.topic = topic_name("topic", topic)
        self.group = None if group is None else label("group", group)
        self._way = way_to(bootstrap, security, librdkafka)
        self._keys, self._values = codec("keys", keys), codec("values", values)
        self._prefetch = None if prefetch is None else whole_number("prefetch", prefetch, at_least=0)
        self._client_id = label("client_id", client_id)
        self._declared = declaration(topic, group or "", dead_letters=dead_letters, attempts=attempts, backoff=backoff, lock=lock)
        self._beginning = threading.Lock()
        self._producer: Producer | None = None
        self._engine: Engine | None = None
        self._is_there = self._has_delays = False
        self._ready: queue.SimpleQueue[Job[K, V] | None] = queue.SimpleQueue()  # None: look whether it is over
        self._in_hand: Job[K, V] | None = None
        self._is_stopping = self._is_closed = False

    # Putting

    def put(
        self,
        value: V,
        *,
        key: Any = None,
        headers: HeadersGiven | None = None,
        delay: float | timedelta | None = None,
        at: datetime | int | None = None,
        ttl: float | timedelta | None = None,
    ) -> Delivery:
        """Put one job, and return when it is on disk.

        Args:
            value: What `values` takes.
            key: What `keys` takes; under it a job that waits can be cancelled.
            headers: Names with bytes, str or None.
            delay: How long it waits before anybody gets it, as seconds or a timedelta.
            at: Or when somebody may get it, as a datetime or milliseconds since 1970.
            ttl: How long it is worth doing: a job that is older is passed over.
        """
        producer = self._opened_producer()
        if (delay is not None or at is not None) and not self._has_delays:
            ensure_delays(self._way, self.topic)
            self._has_delays = True
        return producer.send(self.topic, value, key=key, headers=headers, delay=delay, at=at, ttl=ttl).result()

    def put_many(self, values: Iterable[V], *, keys: Iterable[K] | None = None) -> int:
        """Put many jobs, and return when all are on disk: how many they are."""
        return len(self._opened_producer().send_many(self.topic, values, keys=keys).result())

    def cancel(self, key: K) -> None:
        """Take back what waits for its time under a key."""
        self._opened_producer().cancel(self.topic, key).result()

    def _opened_producer(self) -> Producer:
        with self._beginning:
            self._check_open()
            self._ensure_topic()
            if self._producer is None:
                self._producer = Producer(
                    self._way.bootstrap,
                    keys=self._keys,  # type: ignore[arg-type]  # a codec is taken as it is
                    values=self._values,  # type: ignore[arg-type]
                    linger=0,
                    client_id=self._client_id,
                    librdkafka=self._way.properties,
                )
            return self._producer

    def _ensure_topic(self) -> None:
        if not self._is_there:
            ensure_topic(self._way, self.topic)
            self._is_there = True

    # Working

    def __iter__(self) -> Iterator[Job[K, V]]:
        return self.jobs()

    def jobs(self, timeout: Duration | None = None) -> Iterator[Job[K, V]]:
        """Jobs as they come; to ask for the next one says that the one before is done.  Ends when none has come for `timeout`,
        when the queue is stopped, and on SIGTERM.  An exception that leaves the `with` block of the queue releases the job in
        hand, and Reject rejects it; `with job:` around the work keeps the loop going.
        """
        limit = None if timeout is None else seconds("timeout", timeout)
        self._started(workers=1)
        self._is_stopping = False
        with ended_by_signals(self.stop, signal.SIGTERM):
            while True:
                self._finish_in_hand()
                job = self._next(limit)
                if job is None:
                    return
                self._in_hand = job
                yield job

    def take(self, timeout: Duration | None = None) -> Job[K, V] | None:
        """One job, which is the caller's to end: `done`, `release`, `reject`, or `with job:`.  None when none comes in time."""
        return next(iter(self.take_many(1, timeout)), None)

    def take_many(self, count: int, timeout: Duration | None = None) -> list[Job[K, V]]:
        """As many as are there, and one at the least if one comes in time; each is the caller's to end."""
        limit = None if timeout is None else seconds("timeout", timeout)
        engine = self._started()
        with engine.wanting(whole_number("count", count, at_least=1)):
            first = self._next(limit)
        taken = [] if first is None else [first]
        while taken and len(taken) < count and not self._ready.empty():
            job = self._ready.get()
            if job is None:
                self._ready.put(None)
                break
            if engine.member.begin(job):
                taken.append(job)
        return taken

    def work(self, handler: Callable[[Job[K, V]], object], *, workers: int = 8, idle: Duration | None = None) -> None:
        """Call a function with each job, in `workers` threads, until `stop` is called from elsewhere, or SIGTERM or Ctrl-C comes.

        A job is done when the handler returns, released when it raises, rejected when it raises Reject.  With `idle`, it also
        ends when no job has come for so long.
        """
        plain_function("handler", handler, "a Job", hint=" (AsyncQueue takes async functions)")
        count = whole_number("workers", workers, at_least=1, at_most=1000)
        wait = None if idle is None else seconds("idle", idle)
        engine = self._started(workers=count)
        self._finish_in_hand()
        self._is_stopping = False
        failures: list[BaseException] = []
        threads = [
            threading.Thread(
                target=self._serve, args=(handler, wait, failures), name=f"headrace-queue-worker-{number}", daemon=True
            )
            for number in range(count)
        ]
        with ended_by_signals(self.stop, signal.SIGTERM, signal.SIGINT):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        engine.want(0)
        if failures:
            raise failures[0]

    def _serve(self, handler: Callable[[Job[K, V]], object], wait: float | None, failures: list[BaseException]) -> None:
        try:
            while (job := self._next(wait)) is not None:
                with job:
                    returned = handler(job)
                    refuse_unrun("handler", returned)
        except BaseException as error:
            failures.append(error)
            self.stop()

    def stop(self) -> None:
        """Have loops over jobs and `work` end after the jobs in hand.  From any thread, and from handlers of signals."""
        self._is_stopping = True
        self._ready.put(None)

    def _started(self, workers: int | None = None, on_jobs: OnJobs | None = None) -> Engine:
        with self._beginning:
            self._check_open()
            if self.group is None:
                raise WrongState(f"to work on jobs needs a group, whose workers share them: Queue('{self.topic}', group='…')")
            if self._engine is None:
                self._ensure_topic()
                ensure_group(self._way, self._declared)
                self._engine = Engine(
                    self._way,
                    self.topic,
                    self.group,
                    keys=self._keys,
                    values=self._values,
                    prefetch=self._prefetch,
                    client_id=self._client_id,
                    on_jobs=on_jobs or self._on_jobs,
                )
            engine = self._engine
        if workers is not None:
            engine.want(workers)
        engine.wait_until_at_work()
        return engine

    def _on_jobs(self, jobs: list[Job[K, V]]) -> None:
        for job in jobs or (None,):
            self._ready.put(job)

    def _next(self, timeout: float | None) -> Job[K, V] | None:
        engine = self._engine
        assert engine is not None
        deadline = None if timeout is None else time.monotonic() + timeout
        while not (self._is_stopping or self._is_closed):
            try:
                job = self._ready.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if job is None:
                engine.raise_failure()
            elif engine.member.begin(job):
                return job
        self._ready.put(None)  # for the others who wait
        return None

    def _finish_in_hand(self) -> None:
        job, self._in_hand = self._in_hand, None
        if job is not None:
            job.end(None)

    # How it is

    def depth(self) -> Depth:
        """How many jobs are ready, in flight, delayed and dead, and how old the oldest is that is not done."""
        from headrace.client.queue.depth import depth_of

        if self.group is None:
            raise WrongState(f"depth() needs a group, whose jobs are counted: Queue('{self.topic}', group='…')")
        return depth_of(self._way, self.topic, self.group)

    # Ending

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("this queue is closed; open a new one")

    def close(self) -> None:
        """Tell the brokers what is done, give back the rest, leave the group.  The job last handed out by a loop is released
        unless something was said of it; a `with` block that ends without an exception takes it as done.  Calling it again has
        no effect."""
        self._close(WrongState("closed"))

    def _close(self, error: BaseException | None) -> None:
        with self._beginning:
            if self._is_closed:
                return
            self._is_closed = True
        job, self._in_hand = self._in_hand, None
        if job is not None:
            job.end(error)
        if self._engine is not None:
            self._engine.close()
        self._ready.put(None)
        if self._producer is not None:
            self._producer.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close(error)


class Insides(Generic[K, V]):
    """What a queue is inside, for AsyncQueue: jobs go to whoever starts it, and not through the queue's own hands."""

    def __init__(self, queue: Queue[K, V]) -> None:
        self._queue = queue

    def start(self, on_jobs: OnJobs) -> Engine:
        return self._queue._started(None, on_jobs)

    def begin(self, job: Job[K, V]) -> bool:
        engine = self._queue._engine
        return engine is not None and engine.member.begin(job)

    def raise_failure(self) -> None:
        if self._queue._engine is not None:
            self._queue._engine.raise_failure()


def insides_of(queue: Queue[K, V]) -> Insides[K, V]:
    return Insides(queue)
