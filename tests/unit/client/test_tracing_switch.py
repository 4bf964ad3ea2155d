"""Tracing is off unless somebody asks for it, and costs no import then."""

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from headrace import InvalidArgument, Producer
from headrace.client.tracing.switch import spans_for

CLIENT: dict[str, Any] = {"bootstrap": "127.0.0.1:9092", "client_id": "test"}
SCRIPT = """
import sys
from headrace import Consumer, Producer
Producer("127.0.0.1:1").close()
Consumer("t", bootstrap="127.0.0.1:1").close()
assert not [name for name in sys.modules if name.startswith("opentelemetry")], "imported"
sys.modules["opentelemetry"] = None
try:
    Producer("127.0.0.1:1", tracing=True)
except ValueError as error:
    print(error)
"""


def test_nothing_is_imported_while_it_is_off_and_what_is_missing_is_named() -> None:
    said = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, text=True).stdout

    assert said == "tracing needs OpenTelemetry; install it: pip install 'headrace[otel]'\n"


def test_the_environment_decides_where_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_TRACING", raising=False)
    assert spans_for(None, **CLIENT) is None
    monkeypatch.setenv("HEADRACE_TRACING", "on")
    assert spans_for(None, **CLIENT) is not None
    assert spans_for(False, **CLIENT) is None
    monkeypatch.setenv("HEADRACE_TRACING", "maybe")
    with pytest.raises(InvalidArgument, match=r"HEADRACE_TRACING='maybe' is not accepted; accepted: on, off"):
        spans_for(None, **CLIENT)


def test_a_provider_is_taken_and_other_things_are_not() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    assert spans_for(provider, **CLIENT) is not None
    with pytest.raises(InvalidArgument, match=r"tracing='jaeger' is not accepted; accepted: True, False, or a TracerProvider"):
        Producer("127.0.0.1:1", tracing="jaeger")  # type: ignore[arg-type]
