"""`headrace client-metrics`: ask clients for their own metrics (KIP-714).  Brokers show them on /metrics/detail."""

from typing import Annotated, Any

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, open_wire_admin
from headrace.cli.output import confirm, remark, show_json, show_table

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode="rich", help="Ask clients for their own metrics: latencies, retries, queues."
)

CLIENT_METRICS_TYPE = 16
METRICS, INTERVAL_MS, MATCH = SETTINGS = ("metrics", "interval.ms", "match")
SET, DELETE = 0, 1

Name = Annotated[str, typer.Argument(metavar="NAME", help="The subscription.")]


@app.command("list")
def list_subscriptions(as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Show what clients are asked for."""
    with open_wire_admin(bootstrap) as admin:
        found = {name: _settings(admin, name) for name in _names(admin)}
    if as_json:
        show_json([{"name": name, **settings} for name, settings in found.items()])
    elif not found:
        remark("No client is asked for anything. To begin: headrace client-metrics set NAME")
    else:
        show_table(("name", *SETTINGS), [(name, *(texts[each] or "-" for each in SETTINGS)) for name, texts in found.items()])


@app.command(
    "set",
    epilog="Examples: [bold]headrace client-metrics set all[/bold]   [bold]headrace client-metrics set latency "
    "--metrics org.apache.kafka.producer.node.request.latency --interval 30000 --match client_id=billing.*[/bold]",
)
def set_subscription(
    name: Name,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics", metavar="PREFIX", help="Metrics whose names begin so; may be repeated. Without it all of them."
        ),
    ] = None,
    interval: Annotated[int, typer.Option("--interval", metavar="MS", help="How often clients tell them.")] = 60_000,
    match: Annotated[
        list[str] | None,
        typer.Option(
            "--match",
            metavar="NAME=PATTERN",
            help="Only clients whose client_id, client_software_name, client_software_version, client_source_address, "
            "client_source_port or client_instance_id matches; may be repeated. Without it all clients.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Ask clients for their own metrics.  Clients of librdkafka 2.5 and of Java 3.7 or newer answer by themselves.

    What they tell is on /metrics/detail of the broker that they tell it to, as headrace_client_metric and
    headrace_client_counter_total.  A client learns of a change when it next asks, within five minutes at the most.
    """
    texts = {METRICS: ",".join(metrics or ["*"]), INTERVAL_MS: str(interval), MATCH: ",".join(match or [])}
    with open_wire_admin(bootstrap) as admin:
        _alter(admin, name, [(key, DELETE if not text else SET, text or None) for key, text in texts.items()])
    remark(f"Clients are asked by {name}.")


@app.command(epilog="Example: [bold]headrace client-metrics delete latency[/bold]")
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Stop asking."""
    with open_wire_admin(bootstrap) as admin:
        if name not in _names(admin):
            raise typer.BadParameter(f"There is no subscription {name}: headrace client-metrics list shows those there are.")
        confirm(f"Delete the subscription {name}?", yes=yes)
        _alter(admin, name, [(setting, DELETE, None) for setting in SETTINGS])
    remark(f"Deleted {name}.")


def _names(admin: Any) -> list[str]:
    from headrace.client.admin.wire_admin import raise_for
    from headrace.wire.messages.list_config_resources import ListConfigResourcesRequest

    reply = admin.call(ListConfigResourcesRequest(resource_types=(CLIENT_METRICS_TYPE,)))
    raise_for(reply.error_code, "client metrics", None)
    return [resource.resource_name for resource in reply.config_resources]


def _settings(admin: Any, name: str) -> dict[str, str]:
    from headrace.client.admin.wire_admin import raise_for
    from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resource = DescribeConfigsResource(resource_type=CLIENT_METRICS_TYPE, resource_name=name, configuration_keys=None)
    result = admin.call(DescribeConfigsRequest(resources=(resource,))).results[0]
    raise_for(result.error_code, name, result.error_message)
    return {config.name: config.value or "" for config in result.configs}


def _alter(admin: Any, name: str, changes: list[tuple[str, int, str | None]]) -> None:
    from headrace.client.admin.wire_admin import raise_for
    from headrace.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    configs = tuple(AlterableConfig(name=key, config_operation=operation, value=text) for key, operation, text in changes)
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS_TYPE, resource_name=name, configs=configs)
    reply = admin.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False))
    raise_for(reply.responses[0].error_code, name, reply.responses[0].error_message)
