"""The `headrace` command: which commands there are, and what becomes of an error.

Every command lives in a module of its own and is loaded when it is asked for: `headrace topic list` does not pay for Spark.
A person sees one sentence and what to do next, never a traceback (unless HEADRACE_DEBUG is set).
Exit codes: 0 success, 1 failure, 2 usage error.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from headrace.cli.failure import Failure, sentence_of, with_advice
from headrace.cli.plain_arguments import read_plain_arguments
from headrace.cli.way import Profile, complete, forget_way

# name on the command line -> module:attribute.  The attribute is a Typer application (a group of commands) or a function (one
# command).  The order is the order of the help.
COMMANDS = {
    "serve": "headrace.cli.node.serve:serve",
    "gateway": "headrace.cli.node.gateway:gateway",
    "console": "headrace.cli.node.console:console",
    "topic": "headrace.cli.topics.topic:app",
    "produce": "headrace.cli.topics.produce:produce",
    "consume": "headrace.cli.topics.consume:consume",
    "cancel": "headrace.cli.topics.delays:cancel",
    "group": "headrace.cli.groups.group:app",
    "transaction": "headrace.cli.groups.transaction:app",
    "producer": "headrace.cli.groups.transaction:producer_app",
    "dead-letter": "headrace.cli.topics.dead_letter:app",
    "queue": "headrace.cli.groups.queue:app",
    "schedule": "headrace.cli.topics.schedule:app",
    "pipeline": "headrace.cli.pipeline.pipeline:app",
    "cluster": "headrace.cli.cluster.cluster:app",
    "quota": "headrace.cli.cluster.quota:app",
    "profile": "headrace.cli.cluster.profile:app",
    "user": "headrace.cli.cluster.user:app",
    "cert": "headrace.cli.node.cert:app",
    "acl": "headrace.cli.cluster.acl:app",
    "audit": "headrace.cli.cluster.audit:app",
    "monitoring": "headrace.cli.monitoring.monitoring:app",
    "client-metrics": "headrace.cli.monitoring.client_metrics:app",
    "recover": "headrace.cli.node.recover:recover",
    "log": "headrace.cli.node.log:app",
    "logs": "headrace.cli.node.logs:app",
    "doctor": "headrace.cli.node.doctor:doctor",
    "demo": "headrace.cli.pipeline.demo:demo",
}


class LazyCommands(typer.core.TyperGroup):
    """The table above as a group of commands, each imported at its first use."""

    def list_commands(self, ctx: Any) -> list[str]:
        for name in COMMANDS:
            self.get_command(ctx, name)
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in COMMANDS:
            module, attribute = COMMANDS[cmd_name].split(":")
            self.commands[cmd_name] = _command(cmd_name, getattr(import_module(module), attribute))
            complete(self.commands[cmd_name])
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS:
            self.list_commands(ctx)  # "did you mean" looks only at what is loaded
        return super().resolve_command(ctx, args)


def _command(name: str, target: typer.Typer | Callable[..., Any]) -> Any:
    if isinstance(target, typer.Typer):
        group = typer.main.get_group(target)
        group.name = name
        return group
    single = typer.Typer(add_completion=False, rich_markup_mode="rich")
    single.command(name)(target)
    return typer.main.get_command(single)


def _name_types_plainly() -> None:
    """Typer shows `<bool>` beside flags, which take no value, and `<int range>` or `<str>` beside the others."""
    option: Any = typer.core.TyperOption
    argument: Any = typer.core.TyperArgument
    shown = option.display_type_rich

    def plain(self: Any, ctx: Any) -> str | None:
        if self.metavar is not None:
            return str(self.metavar)
        text: str | None = None if self.is_flag else shown(self, ctx)
        return None if text is None else PLAIN_TYPES.get(text, text)

    option.display_type_rich = plain
    argument.display_type_rich = lambda self, ctx: None


PLAIN_TYPES = {"<int>": "N", "<int range>": "N", "<float>": "N", "<float range>": "N", "<str>": "TEXT"}
_name_types_plainly()
read_plain_arguments()

app = typer.Typer(
    cls=LazyCommands,
    name="headrace",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with [bold]headrace serve[/bold] in one terminal and [bold]headrace produce hello[/bold] in another. "
    "[bold]headrace COMMAND --help[/bold] shows examples.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"headrace {version('headrace')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    profile: Profile = None,
) -> None:
    """A durable, partitioned log that speaks Kafka's wire protocol."""


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; the exit code."""
    forget_way()
    try:
        app(arguments, prog_name="headrace")
    except SystemExit as exit:
        # typer and rich end the process themselves when the pipe breaks.
        return _leave_the_pipe() if _from_broken_pipe(exit) else _exit_code(exit.code)
    except Failure as failure:
        print(f"headrace: {with_advice(str(failure))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _leave_the_pipe()
    except Exception as error:
        if os.environ.get("HEADRACE_DEBUG"):
            raise
        print(f"headrace: {with_advice(sentence_of(error))}", file=sys.stderr)
        return 1
    return 0


def _from_broken_pipe(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, BrokenPipeError):
            return True
        error = error.__context__
    return False


def _leave_the_pipe() -> int:
    """Whoever read our output has had enough (`| head`): nothing failed.  Python must not try to flush into the pipe again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1
