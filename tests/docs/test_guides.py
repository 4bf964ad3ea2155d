"""Every block of code in the guides runs, and prints what the page says it prints.

The Python blocks of a page run one after the other in one namespace, as a reader would type them.  A `text` block after one
is what it prints.  Shell blocks run too.  Functions named test_… are run by pytest with the fixtures they ask for.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PAGES = [GUIDES.parent / "index.md", *sorted(path for path in GUIDES.glob("*.md") if "```" in path.read_text())]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def broker_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Pages name topics as they please, so each has a broker to itself."""
    from headrace.testing import Broker

    with Broker() as broker:
        monkeypatch.setenv("HEADRACE_BOOTSTRAP", broker.bootstrap)
        monkeypatch.chdir(tmp_path)
        yield broker


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs_and_prints_what_it_says(page: Path, broker_of_its_own: Any, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    printed: str | None = None
    text = page.read_text()
    for block in BLOCK.finditer(text):
        language, code = block.groups()
        where = f"{page.name}, line {text[: block.start()].count(chr(10)) + 1}"
        if language == "python" and re.search(r"^def test_", code, re.MULTILINE):
            run_tests_in(code, text, tmp_path)
        elif language == "python":
            printed = run_python(code, names, where)
        elif language == "sh":
            run_shell(code, where)
            printed = None
        elif language == "text":
            assert printed is not None, f"{where}: nothing before it prints"
            assert printed == code, where
        else:
            pytest.fail(f"{where}: a block of {language} cannot be run")


def run_python(code: str, names: dict[str, Any], where: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, where, "exec"), names)
    return out.getvalue()


def run_tests_in(code: str, page: str, directory: Path) -> None:
    """Tests shown on a page, as a file of their own: imports of the blocks before it, then the block."""
    imports = re.findall(r"^(?:from|import) .*$", page, re.MULTILINE)
    file = directory / "test_from_the_guide.py"
    file.write_text("\n".join(imports) + "\n\n" + code)
    installed = any(entry.name == "headrace" for entry in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "headrace.testing.plugin"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, file],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=directory,
    )
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


def run_shell(code: str, where: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-e", "-c", code], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, f"{where}: {ended.stderr}"


def test_every_guide_is_in_the_navigation_and_the_list() -> None:
    navigation = (GUIDES.parents[1] / "mkdocs.yml").read_text()
    listed = (GUIDES / "index.md").read_text()

    for page in GUIDES.glob("*.md"):
        assert f"guides/{page.name}" in navigation
        assert page.name == "index.md" or f"({page.name})" in listed


def test_every_public_name_is_in_the_reference() -> None:
    import headrace

    reference = (GUIDES / "reference.md").read_text()
    modules = set(re.findall(r"^::: (headrace[\w.]+)", reference, re.MULTILINE))
    for name in headrace.__all__:
        home = headrace._HOMES[name]
        if home.startswith("headrace.client"):
            assert home in modules or f"{home}.{name}" in modules or name in ("Delivery",), name
