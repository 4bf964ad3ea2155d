"""Running the command line inside the test's own process."""

import io
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from headrace.cli.main import run


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    output: str
    remarks: str


@pytest.fixture
def headrace(
    request: pytest.FixtureRequest, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Run a command with its words; standard input may be given."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "200")

    def command(*words: str, given: bytes = b"") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = run(list(words))
        output, remarks = capsysbinary.readouterr()
        return Outcome(code, output.decode(), remarks.decode())

    return command


@pytest.fixture
def client(headrace: Callable[..., Outcome], bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Run a client command against the tests' broker."""
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", bootstrap)
    return headrace
