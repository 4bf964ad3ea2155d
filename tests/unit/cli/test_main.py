"""The command line as a whole: its help, its speed, its errors and its exit codes."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer

from headrace.cli import main as cli
from headrace.cli.failure import Failure

Command = Callable[..., Any]


def test_the_help_lists_every_command(headrace: Command) -> None:
    outcome = headrace("--help")

    assert outcome.code == 0
    assert [name for name in cli.COMMANDS if f" {name} " not in outcome.output] == []


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(headrace: Command, name: str) -> None:
    outcome = headrace(name, "--help")

    assert outcome.code == 0
    assert f"Usage: headrace {name}" in outcome.output


@pytest.mark.parametrize("words", [(), ("topic", "create"), ("group", "reset"), ("serve",)], ids=" ".join)
def test_the_help_names_no_type_of_python(headrace: Command, words: tuple[str, ...]) -> None:
    assert re.findall(r"<[a-z ]+>", headrace(*words, "--help").output) == []


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (
            ["--help"],
            {"confluent_kafka", "asyncio", "pyspark", "aiohttp", "headrace.broker", "headrace.client.consumer.consumer"},
        ),
        (["topic", "list", "--help"], {"confluent_kafka", "asyncio", "pyspark", "headrace.broker"}),
        (["serve", "--help"], {"confluent_kafka", "pyspark"}),
    ],
)
def test_help_is_quick_because_it_imports_nothing_heavy(words: list[str], heavy: set[str]) -> None:
    program = (
        "import sys, json; from headrace.cli.main import run; sys.stdout = open('/dev/null', 'w'); "
        f"run({words!r}); print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert not loaded & heavy


def test_an_unknown_command_is_a_usage_error_that_names_the_nearest(headrace: Command) -> None:
    outcome = headrace("topc")

    assert outcome.code == 2
    assert "Did you mean 'topic'?" in outcome.remarks


def test_an_unknown_option_is_a_usage_error(headrace: Command) -> None:
    assert headrace("topic", "list", "--nonsense").code == 2


def test_no_broker_is_one_sentence_that_says_what_to_do(headrace: Command) -> None:
    outcome = headrace("topic", "list", "--bootstrap", "127.0.0.1:1")

    assert outcome.code == 1
    assert outcome.output == ""
    assert outcome.remarks.count("\n") == 1
    assert "127.0.0.1:1" in outcome.remarks
    assert "headrace serve" in outcome.remarks


def test_an_address_that_is_none_is_a_usage_error(headrace: Command) -> None:
    assert headrace("topic", "list", "--bootstrap", "nonsense").code == 2


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (Failure("It did not work."), 1, "headrace: It did not work.\n"),
        (KeyboardInterrupt(), 130, ""),
        (RuntimeError("odd"), 1, "headrace: RuntimeError: odd (set HEADRACE_DEBUG=1 to see where)\n"),
    ],
)
def test_whatever_is_raised_becomes_a_sentence_and_an_exit_code(
    headrace: Command, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int, said: str
) -> None:
    def fail() -> None:
        raise raised

    monkeypatch.delenv("HEADRACE_DEBUG", raising=False)
    monkeypatch.setattr(cli, "app", failing_app(fail))

    outcome = headrace("fail")

    assert (outcome.code, outcome.remarks) == (code, said)


def failing_app(command: Callable[[], None]) -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    app.command("fail")(command)
    return app


def test_a_reader_that_leaves_is_no_failure() -> None:
    program = "import sys; from headrace.cli.main import run; sys.exit(run(['--help']))"
    script = f'{sys.executable} -c "{program}" | true; test ${{PIPESTATUS[0]}} -eq 0'

    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_the_version_is_the_packages(headrace: Command) -> None:
    from importlib.metadata import version

    assert headrace("--version").output == f"headrace {version('headrace')}\n"
