"""A test that ran out of time amid a call into Java leaves a session that the next one can use."""

import os
import signal
import threading
from types import FrameType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.interrupted import forget_calls_under_way


class TimeIsUp(BaseException):
    """No `Exception`, as that of pytest-timeout is none."""


def end_it(number: int, frame: FrameType | None) -> None:
    raise TimeIsUp


def test_the_call_after_one_that_was_cut_short_has_its_own_answer(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    park = java.java.util.concurrent.locks.LockSupport.parkNanos
    before = signal.signal(signal.SIGUSR1, end_it)
    clock = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        clock.start()
        # The exception, as a failed test's, is kept, and with it the frames that know the connection.
        with pytest.raises(TimeIsUp) as kept:
            park(1_000_000_000)
    finally:
        clock.join()
        signal.signal(signal.SIGUSR1, before)
    forget_calls_under_way()

    assert spark.range(7).count() == 7
    with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers"):
        spark.read.format("headrace").load()
    assert kept.value is not None
