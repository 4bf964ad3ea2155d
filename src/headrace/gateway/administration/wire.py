"""What the SDK asks brokers by hand, asked as the caller and off the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from headrace.client.admin.wire_admin import WireAdmin, raise_for
from headrace.gateway.api.call import Call
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

Result = TypeVar("Result")
SET: Final = 0
REMOVE: Final = 1


async def on_the_wire(call: Call, use: Callable[[WireAdmin], Result]) -> Result:
    """Something with connections of its own, which are closed behind it."""
    caller = call.caller

    def ask() -> Result:
        with WireAdmin(caller.bootstrap, caller.credentials.properties, client_id="headrace-gateway") as admin:
            return use(admin)

    return await asyncio.to_thread(ask)


async def settings_of(call: Call, kind: int, name: str, broker: int | None = None) -> list[Any]:
    """The settings of a thing of this kind, in the order of their names."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    (found,) = (await call.caller.cluster.call(DescribeConfigsRequest(resources=(resource,)), broker=broker)).results
    raise_for(found.error_code, name, found.error_message)
    return sorted(found.configs, key=lambda each: str(each.name))


async def change_settings_of(call: Call, kind: int, name: str, changes: dict[str, str | None], broker: int | None = None) -> None:
    """Set some; None takes one back to its default."""
    configs = tuple(
        AlterableConfig(name=each, config_operation=REMOVE if text is None else SET, value=text) for each, text in changes.items()
    )
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    (found,) = (await call.caller.cluster.call(request, broker=broker)).responses
    raise_for(found.error_code, name, found.error_message)
