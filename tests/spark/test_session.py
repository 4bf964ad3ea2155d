"""The end of a Spark session, without Spark."""

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from headrace.spark.pipeline.session import end_session


def unreachable() -> None:
    raise ConnectionRefusedError(111, "Connection refused")


def java(exit_code: int | None) -> Any:
    def wait(timeout: float) -> int:
        if exit_code is None:
            raise subprocess.TimeoutExpired("java", timeout)
        return exit_code

    return SimpleNamespace(wait=wait, stdin=SimpleNamespace(close=lambda: None))


def test_a_session_whose_java_was_killed_ends_without_an_error_that_would_hide_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=java(-9), shutdown=lambda: None))
    monkeypatch.setattr(SparkContext, "_jvm", None)
    spark: Any = SimpleNamespace(stop=unreachable)

    end_session(spark)

    assert SparkContext._gateway is None


def test_a_session_that_cannot_be_stopped_while_java_lives_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=java(None), shutdown=lambda: None))
    spark: Any = SimpleNamespace(stop=unreachable)

    with pytest.raises(ConnectionRefusedError):
        end_session(spark)
