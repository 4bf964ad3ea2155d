"""The threads behind a producer: they let librdkafka call back, which is how its reports reach their futures.

Always: whatever a report meets, the next one is served; after a fatal error what waits is given up, which resolves its futures.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from headrace.client.contact import FirstContact
from headrace.client.librdkafka import Producer as Librdkafka
from headrace.client.librdkafka import new_producer
from headrace.client.logs import log
from headrace.client.producer.receipts import serving

SLICE_S = 0.1


Note = Callable[[KafkaError], None]


def open_client(config: dict[str, Any], note_error: Note) -> tuple[Librdkafka, Note]:
    """The client, and who is told of errors that it raises instead of calling back: the fatal ones."""
    # The client, which the serving thread holds, must not hold the Producer: a forgotten one could never be collected.
    noting = weakref.WeakMethod(note_error)

    def on_error(error: KafkaError) -> None:
        if (note := noting()) is not None:
            note(error)

    return new_producer({**config, "error_cb": on_error}), on_error


def serve(client: Librdkafka, note: Note, stopping: threading.Event, contact: FirstContact) -> None:
    """Bring delivery reports until told to stop.  Knows only the client, so that a forgotten Producer can be collected."""
    serving.here = True
    while not stopping.is_set():
        if not _serve_once(client.poll, client, note, SLICE_S):
            stopping.wait(SLICE_S)
        if not contact.made and len(client) > 0 and contact.is_overdue():
            client.purge()


def flush(client: Librdkafka, note: Note, timeout: float | None) -> bool:
    """Whether everything was answered in time.  librdkafka flushes in a thread of its own and we wait here: its `flush`,
    interrupted by Ctrl-C, may come back with no exception at all, and the program would go on as if nobody had asked it to
    stop."""
    if len(client) == 0:
        return True
    deadline = None if timeout is None else time.monotonic() + timeout
    enough = threading.Event()
    flusher = threading.Thread(target=_flush_all, args=(client, note, enough), name="headrace-flush", daemon=True)
    flusher.start()
    try:
        while flusher.is_alive() and (deadline is None or time.monotonic() < deadline):
            flusher.join(SLICE_S if deadline is None else max(0.0, min(SLICE_S, deadline - time.monotonic())))
    finally:
        enough.set()
    return len(client) == 0


def flush_here(client: Librdkafka, note: Note, timeout: float) -> bool:
    """The same in this thread, for a process that ends and can start no more of them."""
    deadline = time.monotonic() + timeout
    while len(client) > 0 and time.monotonic() < deadline:
        if not _serve_once(client.flush, client, note, SLICE_S):
            break
    return len(client) == 0


def _flush_all(client: Librdkafka, note: Note, enough: threading.Event) -> None:
    serving.here = True
    while len(client) > 0 and not enough.is_set():
        if not _serve_once(client.flush, client, note, SLICE_S):
            return


def _serve_once(call: Callable[[float], int], client: Librdkafka, note: Note, timeout: float) -> bool:
    """Let librdkafka call back for a while.  False after a fatal error, which it raises here: then nothing that waits will
    ever be sent, and giving it up is what resolves its futures."""
    try:
        call(timeout)
    except KafkaException as error:
        note(error.args[0])
        log.error("this producer cannot go on: %s", error.args[0].str())
        client.purge()
        return False
    except Exception:
        # Of a report: this thread brings all the others.
        log.exception("a delivery report raised")
    return True
