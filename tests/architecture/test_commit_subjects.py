"""Commit subjects are short orders: `area: do something`.  The hook and the tests ask the same script."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "commit-subjects"


def ask(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("subject", "complaint"),
    [
        ("log: keep the last segment", ""),
        ("docs, tests: pass the map to the newcomer", ""),
        ('Revert "log: keep the last segment"', ""),
        ("log: keep " + "x" * 62, "has 72 characters"),
        ("keep the last segment", "is not of the form"),
        ("log: keep the last segment.", "ends with a full stop"),
        ("log: keeps the last segment", "another form of the verb"),
        ("log: keeping the last segment", "another form of the verb"),
        ("log: the last segment stays", "begins with `the`"),
        ("log: memory of segments stays", "begins a statement"),
    ],
)
def test_a_subject_that_is_no_short_order_is_refused(tmp_path: Path, subject: str, complaint: str) -> None:
    (tmp_path / "message").write_text(f"{subject}\n\nThe reason is here, as long as it takes to tell.\n")

    done = ask(str(tmp_path / "message"))

    assert (done.returncode, complaint in done.stderr) == (1 if complaint else 0, True), done.stderr


def test_the_subjects_of_this_repository_are_short_orders() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone of the repository")
    done = ask()

    assert done.returncode == 0, done.stderr
