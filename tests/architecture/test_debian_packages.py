"""What tests need of the system is installed where it can be had; one package that cannot keeps nobody from the others."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "debian-packages"

# A machine where nothing is installed, we are no root, and `chromium` is not among the packages.
PROGRAMS = {
    "dpkg": "exit 1",
    "id": "echo 1000",
    "sudo": 'shift; [ "$1" = apt-get ] || { cat >/dev/null; exit 0; }; exec "$@"',
    "apt-get": """
[ "$1" = install ] || exit 0
shift
case " $* " in *" chromium "*) exit 100 ;; esac
for each in "$@"; do case $each in -*) ;; *) echo "$each" >>"$INSTALLED" ;; esac; done
""",
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    for name, script in PROGRAMS.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return tmp_path


def installed(machine: Path, *packages: str) -> tuple[list[str], str]:
    """Which of the packages are there in the end, and what was said."""
    done = machine / "installed"
    environment = os.environ | {"PATH": f"{machine}:{os.environ['PATH']}", "INSTALLED": str(done)}
    run = subprocess.run(
        ["sh", str(SCRIPT), *packages], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    return done.read_text().split() if done.exists() else [], run.stdout


def test_packages_are_installed_together(machine: Path) -> None:
    found, said = installed(machine, "kcat", "etcd-server")

    assert found == ["kcat", "etcd-server"]
    assert "could not" not in said


def test_a_package_that_does_not_exist_keeps_nobody_from_the_others(machine: Path) -> None:
    found, said = installed(machine, "kcat", "chromium", "etcd-server")

    assert found == ["kcat", "etcd-server"]
    assert "apt could not install chromium: tests that need it will be skipped." in said
