"""Hooks and hosted workflows run what runs on a developer's machine: targets of the Makefile, on the same folders."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):(?!=)", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"), key=lambda path: path.name)


def commands(workflow: Path) -> list[str]:
    jobs: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_there_is(workflow: Path) -> None:
    for command in commands(workflow):
        program, *arguments = command.split()
        if program == "make":
            assert set(arguments) <= TARGETS, command
        if program in ("sh", "bash"):
            assert (ROOT / arguments[0]).exists(), command


def test_workflows_try_every_python_that_the_package_names() -> None:
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]

    assert jobs["check"]["strategy"]["matrix"]["python"] == named


def test_hooks_format_and_lint_what_make_does() -> None:
    (sources,) = re.findall(r"^SOURCES := (.*)$", MAKEFILE, re.MULTILINE)
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = {hook["id"]: hook for hook in repository["hooks"]}

    for name in ("format", "lint"):
        assert hooks[name].get("files") == f"^({'|'.join(sources.split())})/", name


def test_every_target_that_makes_no_file_is_declared_so() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)

    assert set(phony.split()) == TARGETS
