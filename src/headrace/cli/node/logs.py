"""`headrace logs`: what running brokers log, by logger."""

from typing import Annotated, Any

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, open_wire_admin
from headrace.cli.output import remark, show_json, show_table

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="What running brokers log, by logger.")

BROKER_LOGGER = 8
SET, DELETE = 0, 1
DEFAULT_LEVEL = "default"

Broker = Annotated[int | None, typer.Option("--broker", metavar="ID", help="Only this broker; all of them if not given.")]


@app.callback()
def logs() -> None:
    """What running brokers log, by logger."""


@app.command(
    epilog="Examples: [bold]headrace logs level[/bold]   [bold]headrace logs level headrace.broker.cluster DEBUG[/bold]   "
    "[bold]headrace logs level headrace.broker.cluster default --broker 2[/bold]"
)
def level(
    logger: Annotated[str | None, typer.Argument(metavar="LOGGER", help="A logger, or the beginning of names to show.")] = None,
    level: Annotated[
        str | None,
        typer.Argument(metavar="LEVEL", help="FATAL, ERROR, WARN, INFO, DEBUG, TRACE; or default, for that of the one above it."),
    ] = None,
    broker: Broker = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the levels of loggers, or change one.

    A change holds at once and until the broker ends; it is not written down.  Every module of the broker is a logger, and a
    logger without a level of its own has that of the one above it: headrace.broker.cluster, headrace.broker, headrace, root.
    """
    with open_wire_admin(bootstrap) as admin:
        brokers = [broker] if broker is not None else sorted(admin.brokers())
        if logger is not None and level is not None:
            for each in brokers:
                _change(admin, each, logger, level)
            remark(f"{logger} is now at {level} on broker {', '.join(map(str, brokers))}.")
            return
        rows = [(each, name, found) for each in brokers for name, found in _levels(admin, each) if name.startswith(logger or "")]
    if as_json:
        show_json([{"broker": each, "logger": name, "level": found} for each, name, found in rows])
    else:
        show_table(("broker", "logger", "level"), rows)


def _levels(admin: Any, broker: int) -> list[tuple[str, str]]:
    from headrace.client.admin.wire_admin import raise_for
    from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resource = DescribeConfigsResource(resource_type=BROKER_LOGGER, resource_name=str(broker), configuration_keys=None)
    result = admin.call(DescribeConfigsRequest(resources=(resource,)), broker=broker).results[0]
    raise_for(result.error_code, f"broker {broker}", result.error_message)
    return [(config.name, config.value or "") for config in result.configs]


def _change(admin: Any, broker: int, logger: str, level: str) -> None:
    from headrace.client.admin.wire_admin import raise_for
    from headrace.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    removed = level == DEFAULT_LEVEL
    config = AlterableConfig(name=logger, config_operation=DELETE if removed else SET, value=None if removed else level.upper())
    resource = AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name=str(broker), configs=(config,))
    reply = admin.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), broker=broker)
    raise_for(reply.responses[0].error_code, logger, reply.responses[0].error_message)
