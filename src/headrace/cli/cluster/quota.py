"""`headrace quota`: what users, client ids, addresses and topics may send, receive, have done for them, and keep."""

from difflib import get_close_matches
from typing import Annotated

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, key_values, open_wire_admin
from headrace.cli.output import remark, show_json, show_table

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Limits for users, client ids, addresses and topics.")

EVERYBODY = "*"
REMOVED = "none"

Entity = Annotated[
    str,
    typer.Argument(
        metavar="ENTITY",
        help="user=NAME, client-id=NAME, user=NAME,client-id=NAME, ip=ADDRESS or topic=NAME; * for all without one.",
    ),
]
Limits = Annotated[
    list[str],
    typer.Argument(
        metavar="LIMIT=VALUE...",
        help="producer_byte_rate, consumer_byte_rate (bytes/s), request_percentage (of a processor), controller_mutation_rate "
        "(partitions/s), connection_creation_rate (of addresses, 1/s), storage_bytes (of topics). none removes a limit.",
    ),
]


@app.command("list")
def list_quotas(as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Show every limit that is set."""
    from headrace.client.admin.wire_admin import raise_for
    from headrace.wire.messages.describe_client_quotas import DescribeClientQuotasRequest

    with open_wire_admin(bootstrap) as admin:
        reply = admin.call(DescribeClientQuotasRequest(components=(), strict=False))
    raise_for(reply.error_code, "quotas", reply.error_message)
    rows = sorted(
        (",".join(f"{part.entity_type}={part.entity_name or EVERYBODY}" for part in entry.entity), value.key, value.value)
        for entry in reply.entries or ()
        for value in entry.values
    )
    if as_json:
        show_json([{"entity": entity, "limit": limit, "value": value} for entity, limit, value in rows])
    elif not rows:
        remark("No limits are set.")
    else:
        show_table(("entity", "limit", "value"), [(entity, limit, f"{value:,.10g}") for entity, limit, value in rows])


@app.command(
    "set",
    epilog="Examples: [bold]headrace quota set client-id=loader producer_byte_rate=5000000[/bold]   "
    "[bold]headrace quota set 'user=*' request_percentage=50[/bold]   "
    "[bold]headrace quota set topic=orders storage_bytes=none[/bold]",
)
def set_quota(entity: Entity, limits: Limits, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Set limits, or remove them.  A limit of bytes/s or time holds for the cluster; each broker enforces an equal share."""
    from headrace.client.admin.wire_admin import raise_for
    from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
    from headrace.wire.messages.metadata import MetadataRequest

    parts = key_values(entity.split(","), "ENTITY")
    operations = tuple(
        OpData(key=name, value=0.0 if value == REMOVED else _number(name, value), remove=value == REMOVED)
        for name, value in key_values(limits, "LIMIT").items()
    )
    named = tuple(EntityData(entity_type=kind, entity_name=None if name == EVERYBODY else name) for kind, name in parts.items())
    with open_wire_admin(bootstrap) as admin:
        topics = {each.name for each in admin.call(MetadataRequest(topics=None)).topics} if "topic" in parts else set()
        reply = admin.call_controller(
            AlterClientQuotasRequest(entries=(EntryData(entity=named, ops=operations),), validate_only=False)
        )
    raise_for(reply.entries[0].error_code, entity, reply.entries[0].error_message)
    remark(f"Changed {entity}.")
    if (topic := parts.get("topic", EVERYBODY)) != EVERYBODY and topic not in topics:
        near = get_close_matches(topic, [name for name in topics if name], n=1)
        remark(f"Topic {topic} does not exist: the limit counts once it does." + (f" Did you mean {near[0]}?" if near else ""))


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{name} wants a number, or {REMOVED}; not {text!r}.") from None
