"""Metrics of the process, and of those who are let in or not."""

import gc
import logging
import socket
import time
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.broker.audit import trail
from headrace.metrics.log_lines import LimitedRepetition
from headrace.testing import Broker
from tests.support.metrics import AT_ANY_PORT, PRODUCE_VERSION, Watch
from tests.support.raw import RawClient, batch, produce
from tests.support.waiting import until


def test_the_process(broker: Broker) -> None:
    watch = Watch(broker)
    began = time.process_time()
    while time.process_time() - began < 0.05:
        sum(range(1000))

    assert watch.moved("process_cpu_seconds_total") > 0
    assert watch.now("process_resident_memory_bytes") > 10_000_000
    assert watch.now("process_virtual_memory_bytes") > watch.now("process_resident_memory_bytes")
    assert watch.now("process_max_fds") > watch.now("process_open_fds") > 3
    assert watch.now("process_start_time_seconds") == pytest.approx(time.time(), abs=86_400)
    assert watch.now("headrace_process_threads") >= 2
    assert watch.now("python_info", implementation="cpython") == 1
    before = watch.now("process_open_fds")
    with socket.socket(), socket.socket(), socket.socket():
        assert watch.now("process_open_fds") == before + 3


def test_garbage(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(broker)
    circle: list[Any] = []
    circle.append(circle)
    del circle
    gc.collect()

    assert watch.moved("python_gc_collections_total", generation=2) >= 1
    assert watch.moved("python_gc_objects_collected_total", generation=2) >= 1
    assert watch.moved("headrace_gc_pause_seconds_total") > 0
    monkeypatch.setattr(
        "headrace.broker.metrics.collectors.process.garbage_statistics",
        lambda: [{"collections": 0, "collected": 0, "uncollectable": 3}],
    )
    assert watch.now("python_gc_objects_uncollectable_total") == 3


def test_a_loop_that_is_late(broker: Broker) -> None:
    watch = Watch(broker)

    def keep_the_loop() -> None:
        began = time.monotonic()
        while time.monotonic() - began < 0.3:
            pass

    broker.run(lambda real: keep_the_loop())

    until(lambda: watch.moved("headrace_loop_delay_seconds" + "_sum") > 0.1)


def test_log_lines_and_those_that_say_the_same_again(broker: Broker) -> None:
    watch, limit = Watch(broker), LimitedRepetition(1)
    for number in range(3):
        limit.filter(logging.LogRecord("headrace", logging.ERROR, "file", 1, "lost %d", (number,), None))

    assert watch.moved("headrace_log_lines_total", level="ERROR") == 3
    assert watch.moved("headrace_log_lines_left_out_total") == 2


def test_sign_ins_denials_and_certificates() -> None:
    with Broker(users={"ann": "secret"}, tls=True, settings={**AT_ANY_PORT, "authorizer": "acl"}) as broker:
        watch = Watch(broker)
        for password in ("secret", "wrong"):
            client = Producer({**broker.client_config("ann"), "sasl.password": password, "logger": logging.getLogger("quiet")})
            outcome = "succeeded" if password == "secret" else "failed"
            until(lambda: client.poll(0.05) or watch.moved("headrace_sign_ins_total", outcome=outcome) >= 1)  # noqa: B023
            if password == "secret":
                client.produce("t", b"one")
                until(lambda: client.poll(0.05) or watch.moved("headrace_denials_total") >= 1)  # noqa: B023
                client.purge()
        assert watch.now("headrace_certificate_expiry_seconds") > time.time()
        host, port = broker.bootstrap.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            stranger.recv(100)
        until(lambda: gc.collect() >= 0 and watch.moved("headrace_tls_handshake_failures_total") >= 1)


def test_events_of_the_audit_trail_that_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    settings = {**AT_ANY_PORT, "authorizer": "acl", "headrace.audit.file": str(folder / "audit.jsonl")}
    with Broker(settings=settings) as broker:
        watch = Watch(broker)
        rmtree(folder)
        monkeypatch.setattr(trail, "WAITING_MAX", 0)
        with RawClient(broker.bootstrap) as client:
            client.call(produce("forbidden", batch(b"one")), PRODUCE_VERSION)

        until(lambda: watch.moved("headrace_audit_lost_events_total", of="topic") >= 1)
        until(lambda: watch.moved("headrace_audit_lost_events_total", of="copies") >= 1)
