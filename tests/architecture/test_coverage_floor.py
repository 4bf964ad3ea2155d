"""The floor of the tests' coverage only rises."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOOR = re.compile(r"^[-+ ]?fail_under = (\d+)$", re.MULTILINE)


def test_the_floor_is_as_high_as_it_ever_was() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone of the repository")
    command = ["git", "log", "--patch", "--unified=0", "--format=", "-G^fail_under", "--", "pyproject.toml"]
    changes = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    (now,) = FLOOR.findall((ROOT / "pyproject.toml").read_text())

    assert int(now) >= max((int(floor) for floor in FLOOR.findall(changes)), default=0)


@pytest.mark.parametrize(
    ("covered", "code", "floor"),
    [("69.99", 1, "70"), ("70.00", 0, "70"), ("70.99", 0, "70"), ("72.50", 0, "72")],
    ids=["below the floor", "at the floor", "above it", "above it by two percent"],
)
def test_coverage_below_the_floor_fails_and_a_whole_percent_more_raises_it(
    tmp_path: Path, covered: str, code: int, floor: str
) -> None:
    (tmp_path / ".ci").mkdir()
    script = shutil.copy(ROOT / ".ci" / "coverage-floor", tmp_path / ".ci")
    (tmp_path / "pyproject.toml").write_text("[tool.coverage.report]\nfail_under = 70\nprecision = 2\n")

    done = subprocess.run([sys.executable, script, covered], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, FLOOR.findall((tmp_path / "pyproject.toml").read_text())) == (code, [floor]), done.stderr
